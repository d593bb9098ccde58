/work/main/tests/target/release/deps/galcore_selftests-11fa20b8abb58529.d: selftests/src/lib.rs selftests/src/contexts.rs selftests/src/control.rs selftests/src/etdump.rs selftests/src/etnaviv.rs selftests/src/fixture.rs selftests/src/foreign.rs selftests/src/harness.rs selftests/src/hostile/mod.rs selftests/src/hostile/attacker.rs selftests/src/hostile/beside.rs selftests/src/hostile/bounced.rs selftests/src/hostile/delays.rs selftests/src/hostile/gaps.rs selftests/src/hostile/innocent.rs selftests/src/hostile/inversion.rs selftests/src/hostile/random.rs selftests/src/hostile/views.rs selftests/src/hostile/waits.rs selftests/src/other.rs selftests/src/reference.rs selftests/src/states.rs selftests/src/system.rs selftests/src/vg.rs selftests/src/video.rs selftests/src/workers.rs

/work/main/tests/target/release/deps/libgalcore_selftests-11fa20b8abb58529.rmeta: selftests/src/lib.rs selftests/src/contexts.rs selftests/src/control.rs selftests/src/etdump.rs selftests/src/etnaviv.rs selftests/src/fixture.rs selftests/src/foreign.rs selftests/src/harness.rs selftests/src/hostile/mod.rs selftests/src/hostile/attacker.rs selftests/src/hostile/beside.rs selftests/src/hostile/bounced.rs selftests/src/hostile/delays.rs selftests/src/hostile/gaps.rs selftests/src/hostile/innocent.rs selftests/src/hostile/inversion.rs selftests/src/hostile/random.rs selftests/src/hostile/views.rs selftests/src/hostile/waits.rs selftests/src/other.rs selftests/src/reference.rs selftests/src/states.rs selftests/src/system.rs selftests/src/vg.rs selftests/src/video.rs selftests/src/workers.rs

selftests/src/lib.rs:
selftests/src/contexts.rs:
selftests/src/control.rs:
selftests/src/etdump.rs:
selftests/src/etnaviv.rs:
selftests/src/fixture.rs:
selftests/src/foreign.rs:
selftests/src/harness.rs:
selftests/src/hostile/mod.rs:
selftests/src/hostile/attacker.rs:
selftests/src/hostile/beside.rs:
selftests/src/hostile/bounced.rs:
selftests/src/hostile/delays.rs:
selftests/src/hostile/gaps.rs:
selftests/src/hostile/innocent.rs:
selftests/src/hostile/inversion.rs:
selftests/src/hostile/random.rs:
selftests/src/hostile/views.rs:
selftests/src/hostile/waits.rs:
selftests/src/other.rs:
selftests/src/reference.rs:
selftests/src/states.rs:
selftests/src/system.rs:
selftests/src/vg.rs:
selftests/src/video.rs:
selftests/src/workers.rs:
