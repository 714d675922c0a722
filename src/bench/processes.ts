/** @module Starts the service that is measured, from the sources or the executable, and reads what it uses. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { CommandError } from '#app/cli/options.ts'
import { systemClock } from '#platform/time/clock.ts'

const PROGRAM = Bun.isStandaloneExecutable
  ? [process.execPath]
  : [process.execPath, join(import.meta.dir, '..', 'main.ts')]

export interface Service extends AsyncDisposable {
  readonly pid: number
  readonly port: number
}

/** Starts the service on a data directory; resolves when it listens. @param settings besides those of every benchmark */
export async function startService(dataDir: string, settings: Readonly<Record<string, string>> = {}): Promise<Service> {
  const child = Bun.spawn([...PROGRAM, 'serve'], {
    env: {
      TASSIS_DATA_DIR: dataDir,
      TASSIS_HTTP_ADDR: '127.0.0.1:0',
      TASSIS_HOSTNAME: 'mail.bench.test',
      TASSIS_LOG_LEVEL: 'error',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
      ...settings,
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // A signal that ends the benchmark must leave no service behind.
  const kill = () => child.kill('SIGKILL')
  process.on('exit', kill)
  void child.exited.then(() => process.off('exit', kill))
  const lines = createInterface({ input: Readable.fromWeb(child.stdout as never) })
  const { value: line, done } = await lines[Symbol.asyncIterator]().next()
  if (done) throw new CommandError(`The service did not start (exit code ${await child.exited}).`)
  return {
    pid: child.pid,
    port: Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1]),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await child.exited
    },
  }
}

export interface Usage {
  /** User and system time so far, all threads. */
  readonly cpuMs: number
  readonly peakRssMiB: number
  readonly rssMiB: number
}

/** Clock ticks per second in /proc, the same on all current Linux systems. */
const TICKS_PER_SECOND = 100

/** Reads the resource usage of a process; NaN on systems without /proc. */
export function readUsage(pid: number): Usage {
  try {
    // The name in parentheses may hold any character; user and system time are the 12th and 13th fields after it.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    const ticks = Number(fields[11]) + Number(fields[12])
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]) / 1024
    return {
      cpuMs: (ticks * 1000) / TICKS_PER_SECOND,
      peakRssMiB: mebibytes('VmHWM'),
      rssMiB: mebibytes('VmRSS'),
    }
  } catch {
    return { cpuMs: Number.NaN, peakRssMiB: Number.NaN, rssMiB: Number.NaN }
  }
}

/** Measures work: its time, and the CPU time of a process during it. */
export async function observe<T>(
  pid: number,
  work: () => Promise<T>,
): Promise<{ readonly value: T; readonly seconds: number; readonly cpuMs: number }> {
  const [before, startedMs] = [readUsage(pid).cpuMs, systemClock.monotonicMs()]
  const value = await work()
  const seconds = (systemClock.monotonicMs() - startedMs) / 1000
  return { value, seconds, cpuMs: readUsage(pid).cpuMs - before }
}

/** How long a benchmark waits for the service. */
const MAX_WAIT_MS = 600_000

/** Asks until `isDone`. @param describe says what is missing */
export async function waitUntil(
  isDone: () => boolean | Promise<boolean>,
  describe: () => string,
  intervalMs = 5,
): Promise<void> {
  const untilMs = systemClock.monotonicMs() + MAX_WAIT_MS
  while (!(await isDone())) {
    if (systemClock.monotonicMs() > untilMs) throw new CommandError(describe())
    await systemClock.sleep(intervalMs)
  }
}
