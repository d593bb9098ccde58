/work/main/tests/target/release/deps/linux_signal-fe865b22fe2c091b.d: selftests/src/bin/linux-signal.rs

/work/main/tests/target/release/deps/liblinux_signal-fe865b22fe2c091b.rmeta: selftests/src/bin/linux-signal.rs

selftests/src/bin/linux-signal.rs:
