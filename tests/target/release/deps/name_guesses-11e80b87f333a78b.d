/work/main/tests/target/release/deps/name_guesses-11e80b87f333a78b.d: selftests/src/bin/name-guesses.rs

/work/main/tests/target/release/deps/libname_guesses-11e80b87f333a78b.rmeta: selftests/src/bin/name-guesses.rs

selftests/src/bin/name-guesses.rs:
