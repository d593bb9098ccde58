/work/main/tests/target/release/deps/native_fences-51f004c05ac2f27b.d: selftests/src/bin/native-fences.rs

/work/main/tests/target/release/deps/libnative_fences-51f004c05ac2f27b.rmeta: selftests/src/bin/native-fences.rs

selftests/src/bin/native-fences.rs:
