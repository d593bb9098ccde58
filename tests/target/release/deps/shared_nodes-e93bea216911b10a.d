/work/main/tests/target/release/deps/shared_nodes-e93bea216911b10a.d: selftests/src/bin/shared-nodes.rs

/work/main/tests/target/release/deps/libshared_nodes-e93bea216911b10a.rmeta: selftests/src/bin/shared-nodes.rs

selftests/src/bin/shared-nodes.rs:
