/**
 * @module Starts the child processes of the benchmark (service, load generator, receivers) as this program with other
 * arguments, so that it works from the sources and from the executable. The caller ends each process.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { CommandError } from '#app/cli/admin-command.ts'

export interface ChildProcess extends AsyncDisposable {
  readonly pid: number
  /** Returns the next line of output; throws when the process has ended. */
  readLine(): Promise<string>
  /** Writes a line to standard input. */
  writeLine(line: string): void
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number>
}

/**
 * Starts this program with other arguments and only the given environment.
 * @param program started instead of this one
 */
export function spawnSelf(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  program = Bun.isStandaloneExecutable ? [process.execPath] : [process.execPath, Bun.main],
): ChildProcess {
  const child = Bun.spawn([...program, ...args], {
    env: { ...environment },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // A signal that ends the benchmark must leave no child process behind.
  const kill = () => child.kill('SIGKILL')
  process.on('exit', kill)
  void child.exited.then(() => process.off('exit', kill))
  const lines = createInterface({ input: Readable.fromWeb(child.stdout as never) })[Symbol.asyncIterator]()
  const stop = () => {
    child.kill('SIGTERM')
    return child.exited
  }
  return {
    pid: child.pid,
    async readLine() {
      const { value, done } = await lines.next()
      if (done)
        throw new CommandError(`A benchmark process ended unexpectedly (${args[0]}, exit code ${await child.exited}).`)
      return value
    },
    writeLine(line) {
      child.stdin.write(`${line}\n`)
      void child.stdin.flush()
    },
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
    },
  }
}

export interface ServiceProcess extends ChildProcess {
  readonly port: number
}

/** Starts the service on a data directory; resolves when it listens. @param settings besides those of every benchmark */
export async function startService(
  dataDir: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const service = spawnSelf(['serve'], {
    TASSIS_DATA_DIR: dataDir,
    TASSIS_HTTP_ADDR: '127.0.0.1:0',
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
    ...settings,
  })
  return { ...service, port: Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(await service.readLine())?.[1]) }
}

export interface Usage {
  /** User and system time so far, all threads. */
  readonly cpuMs: number
  /** Peak resident memory. */
  readonly peakRssMiB: number
  /** Current resident memory. */
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
