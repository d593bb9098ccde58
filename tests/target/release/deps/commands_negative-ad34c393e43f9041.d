/work/main/tests/target/release/deps/commands_negative-ad34c393e43f9041.d: selftests/src/bin/commands-negative.rs

/work/main/tests/target/release/deps/libcommands_negative-ad34c393e43f9041.rmeta: selftests/src/bin/commands-negative.rs

selftests/src/bin/commands-negative.rs:
