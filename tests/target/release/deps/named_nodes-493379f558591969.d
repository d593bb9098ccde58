/work/main/tests/target/release/deps/named_nodes-493379f558591969.d: selftests/src/bin/named-nodes.rs

/work/main/tests/target/release/deps/libnamed_nodes-493379f558591969.rmeta: selftests/src/bin/named-nodes.rs

selftests/src/bin/named-nodes.rs:
