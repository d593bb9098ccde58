/work/main/tests/target/release/deps/galcore_client-cb3bfe0253e96908.d: client/src/lib.rs client/src/abi.rs client/src/client.rs client/src/device.rs client/src/draw.rs client/src/queue.rs client/src/raw.rs client/src/render.rs client/src/scene.rs client/src/state.rs client/src/stream.rs client/src/sys.rs client/src/uapi.rs client/src/../../abi/dove.txt client/src/../../abi/dove_old.txt client/src/../../abi/v2.txt client/src/../../abi/arnova.txt client/src/../../abi/v4.txt client/src/../../abi/eureka.txt client/src/../../abi/4.0.0.txt client/src/../../abi/4.1.0.txt client/src/../../abi/4.6.9.txt client/src/../../abi/5.0.11.p6.txt client/src/../../abi/5.0.11.p8.txt client/src/../../abi/6.2.2.txt client/src/../../abi/6.2.3.txt client/src/../../abi/6.2.4.p2.txt client/src/../../abi/6.2.4.p3.txt client/src/../../abi/6.4.11.txt

/work/main/tests/target/release/deps/libgalcore_client-cb3bfe0253e96908.rmeta: client/src/lib.rs client/src/abi.rs client/src/client.rs client/src/device.rs client/src/draw.rs client/src/queue.rs client/src/raw.rs client/src/render.rs client/src/scene.rs client/src/state.rs client/src/stream.rs client/src/sys.rs client/src/uapi.rs client/src/../../abi/dove.txt client/src/../../abi/dove_old.txt client/src/../../abi/v2.txt client/src/../../abi/arnova.txt client/src/../../abi/v4.txt client/src/../../abi/eureka.txt client/src/../../abi/4.0.0.txt client/src/../../abi/4.1.0.txt client/src/../../abi/4.6.9.txt client/src/../../abi/5.0.11.p6.txt client/src/../../abi/5.0.11.p8.txt client/src/../../abi/6.2.2.txt client/src/../../abi/6.2.3.txt client/src/../../abi/6.2.4.p2.txt client/src/../../abi/6.2.4.p3.txt client/src/../../abi/6.4.11.txt

client/src/lib.rs:
client/src/abi.rs:
client/src/client.rs:
client/src/device.rs:
client/src/draw.rs:
client/src/queue.rs:
client/src/raw.rs:
client/src/render.rs:
client/src/scene.rs:
client/src/state.rs:
client/src/stream.rs:
client/src/sys.rs:
client/src/uapi.rs:
client/src/../../abi/dove.txt:
client/src/../../abi/dove_old.txt:
client/src/../../abi/v2.txt:
client/src/../../abi/arnova.txt:
client/src/../../abi/v4.txt:
client/src/../../abi/eureka.txt:
client/src/../../abi/4.0.0.txt:
client/src/../../abi/4.1.0.txt:
client/src/../../abi/4.6.9.txt:
client/src/../../abi/5.0.11.p6.txt:
client/src/../../abi/5.0.11.p8.txt:
client/src/../../abi/6.2.2.txt:
client/src/../../abi/6.2.3.txt:
client/src/../../abi/6.2.4.p2.txt:
client/src/../../abi/6.2.4.p3.txt:
client/src/../../abi/6.4.11.txt:
