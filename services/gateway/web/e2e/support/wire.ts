// A line between the browser and the gateway that can be cut, and held up.
import { connect, createServer, type Server, type Socket } from "node:net";

export class Line {
  private readonly server: Server;
  private readonly pairs = new Set<[Socket, Socket]>();
  private open = true;
  private flowing = { down: true, up: true };

  private constructor(readonly host: string, readonly port: number, public target: string) {
    this.server = createServer({ pauseOnConnect: true }, (near) => this.join(near));
  }

  /** Takes host:port and passes everything to target:port. */
  static async make(host: string, port: number, target: string): Promise<Line> {
    const line = new Line(host, port, target);
    await new Promise<void>((done, fail) => {
      line.server.once("error", fail);
      line.server.listen(port, host, done);
    });
    return line;
  }

  private join(near: Socket): void {
    if (!this.open) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(this.port, this.target);
    const pair: [Socket, Socket] = [near, far];
    this.pairs.add(pair);
    const end = () => {
      this.pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const s of pair) s.setNoDelay(true).on("error", end).on("close", end);
    near.on("data", (d) => far.write(d)).on("end", () => far.end());
    far.on("data", (d) => near.write(d)).on("end", () => near.end());
    this.apply(pair);
  }

  private apply([near, far]: [Socket, Socket]): void {
    if (this.flowing.up) near.resume();
    else near.pause();
    if (this.flowing.down) far.resume();
    else far.pause();
  }

  /** Breaks every connection and lets none through until mend. */
  cut(): void {
    this.open = false;
    for (const [near, far] of this.pairs) {
      near.resetAndDestroy();
      far.destroy();
    }
  }

  mend(): void {
    this.open = true;
  }

  /** What the server says is held up; what the browser says goes through. */
  hold(direction: "down" | "up" = "down"): void {
    this.flowing[direction] = false;
    for (const p of this.pairs) this.apply(p);
  }

  release(): void {
    this.flowing = { down: true, up: true };
    for (const p of this.pairs) this.apply(p);
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((done) => this.server.close(done));
  }
}
