/work/main/tests/target/release/deps/contexts_v2-3cf6b4e635bc1fb8.d: selftests/src/bin/contexts-v2.rs

/work/main/tests/target/release/deps/libcontexts_v2-3cf6b4e635bc1fb8.rmeta: selftests/src/bin/contexts-v2.rs

selftests/src/bin/contexts-v2.rs:
