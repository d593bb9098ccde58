/work/main/tests/target/release/deps/killed_client-ea497023da374ff8.d: selftests/src/bin/killed-client.rs

/work/main/tests/target/release/deps/libkilled_client-ea497023da374ff8.rmeta: selftests/src/bin/killed-client.rs

selftests/src/bin/killed-client.rs:
