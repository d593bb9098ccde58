/work/main/tests/target/release/deps/event_cost-674f2cd7a134f0d9.d: selftests/src/bin/event-cost.rs

/work/main/tests/target/release/deps/libevent_cost-674f2cd7a134f0d9.rmeta: selftests/src/bin/event-cost.rs

selftests/src/bin/event-cost.rs:
