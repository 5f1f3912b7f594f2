/* proxy.js - a network between the browser and roomd that a test can take away.
 *
 * A page opened through the proxy has the proxy's address for everything, so its WebSocket passes
 * here too, and the server takes it for same-origin.
 */
import { connect, createServer } from "node:net";

export async function startProxy(targetPort) {
  const pairs = new Set();
  let up = true;
  let deaf = false;

  const server = createServer((client) => {
    if (!up) return client.resetAndDestroy();
    const target = connect(targetPort, "127.0.0.1");
    const pair = { client, target };
    pairs.add(pair);
    if (deaf) target.pause();
    client.pipe(target);
    target.on("data", (bytes) => client.write(bytes));
    target.on("end", () => client.end());
    for (const [socket, other] of [
      [client, target],
      [target, client],
    ]) {
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        other.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));

  const cut = () => {
    up = false;
    for (const { client, target } of pairs) {
      client.resetAndDestroy();
      target.destroy();
    }
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /* Resets what is open and refuses what comes. */
    cut,
    restore() {
      up = true;
      deaf = false;
    },
    /* What the server says doesn't arrive any more; what it is told does. */
    deafen() {
      deaf = true;
      for (const { target } of pairs) target.pause();
    },
    stop() {
      cut();
      return new Promise((done) => server.close(done));
    },
  };
}
