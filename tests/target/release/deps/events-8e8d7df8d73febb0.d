/work/main/tests/target/release/deps/events-8e8d7df8d73febb0.d: selftests/src/bin/events.rs

/work/main/tests/target/release/deps/libevents-8e8d7df8d73febb0.rmeta: selftests/src/bin/events.rs

selftests/src/bin/events.rs:
