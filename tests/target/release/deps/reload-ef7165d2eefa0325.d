/work/main/tests/target/release/deps/reload-ef7165d2eefa0325.d: selftests/src/bin/reload.rs

/work/main/tests/target/release/deps/libreload-ef7165d2eefa0325.rmeta: selftests/src/bin/reload.rs

selftests/src/bin/reload.rs:
