/work/main/tests/target/release/deps/cores_hostile-2ed86ad6c66e8be4.d: selftests/src/bin/cores-hostile.rs

/work/main/tests/target/release/deps/libcores_hostile-2ed86ad6c66e8be4.rmeta: selftests/src/bin/cores-hostile.rs

selftests/src/bin/cores-hostile.rs:
