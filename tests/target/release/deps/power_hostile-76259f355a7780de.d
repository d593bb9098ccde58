/work/main/tests/target/release/deps/power_hostile-76259f355a7780de.d: selftests/src/bin/power-hostile.rs

/work/main/tests/target/release/deps/libpower_hostile-76259f355a7780de.rmeta: selftests/src/bin/power-hostile.rs

selftests/src/bin/power-hostile.rs:
