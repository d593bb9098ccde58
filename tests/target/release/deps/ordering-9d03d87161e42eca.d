/work/main/tests/target/release/deps/ordering-9d03d87161e42eca.d: selftests/src/bin/ordering.rs

/work/main/tests/target/release/deps/libordering-9d03d87161e42eca.rmeta: selftests/src/bin/ordering.rs

selftests/src/bin/ordering.rs:
