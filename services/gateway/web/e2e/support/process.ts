// A started program, in a process group of its own and with its output kept.
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { resolve } from "node:path";
import { bin } from "./place.ts";

/** Bounds every wait for something that must happen, in milliseconds. */
export const PATIENCE = 60_000;

export class Process {
  readonly lines: string[] = [];
  private readonly child: ChildProcess;
  private readonly heard = new Set<() => void>();
  private ended = false;
  /** Its exit code; null if it was killed. */
  readonly exit: Promise<number | null>;

  constructor(readonly name: string, args: string[], env: Record<string, string>, private readonly onLine: (line: string) => void = () => undefined) {
    this.child = spawn(resolve(bin, name), args, { env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      createInterface({ input: stream }).on("line", (line) => {
        this.lines.push(line);
        if (stream === this.child.stdout) this.onLine(line);
        for (const f of this.heard) f();
      });
    }
    this.exit = new Promise((done, fail) => {
      this.child.on("error", fail);
      this.child.on("close", (code) => {
        this.ended = true;
        for (const f of this.heard) f();
        done(code);
      });
    });
    this.exit.catch(() => undefined);
  }

  write(line: string): void {
    this.child.stdin!.write(`${line}\n`);
  }

  /** Waits until ready says something of the output. */
  async until<T>(ready: () => T | undefined, what: string): Promise<T> {
    return await new Promise<T>((done, fail) => {
      const end = (f: () => void) => {
        clearTimeout(limit);
        this.heard.delete(look);
        f();
      };
      const look = () => {
        const v = ready();
        if (v !== undefined) end(() => done(v));
        else if (this.ended) end(() => fail(new Error(`${this.name} ended without ${what}:\n${this.output()}`)));
      };
      const limit = setTimeout(() => end(() => fail(new Error(`${this.name} gave no ${what}:\n${this.output()}`))), PATIENCE);
      this.heard.add(look);
      look();
    });
  }

  async line(pattern: RegExp): Promise<RegExpExecArray> {
    return await this.until(() => {
      for (const l of this.lines) {
        const m = pattern.exec(l);
        if (m) return m;
      }
      return undefined;
    }, `line like ${pattern}`);
  }

  output(): string {
    return this.lines.slice(-60).join("\n");
  }

  /** Ends it and all it started at once, as a crash would. */
  async kill(): Promise<void> {
    try {
      process.kill(-this.child.pid!, "SIGKILL");
    } catch {
      // it has ended
    }
    await this.exit.catch(() => undefined);
  }
}
