/**
 * @module The processes of the bench: the service, the load generator and the receiver are this program again, with other arguments, so that it
 * works from the sources and from the executable. Each is ended by whoever began it.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { CommandError } from '#app/cli/admin-command.ts'

export interface ChildProcess extends AsyncDisposable {
  readonly pid: number
  /** The next line that it prints; throws when it ended. */
  readLine(): Promise<string>
  /** Writes a line to its standard input. */
  writeLine(line: string): void
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number>
}

/** Starts this program with other arguments. Its environment is only what is given. */
export function spawnSelf(args: readonly string[], environment: Readonly<Record<string, string>> = {}): ChildProcess {
  const program = Bun.isStandaloneExecutable ? [process.execPath] : [process.execPath, Bun.main]
  const child = Bun.spawn([...program, ...args], {
    env: { ...environment },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // When the bench is ended from outside, nothing of it stays behind.
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
        throw new CommandError(`A process of the bench ended by itself (${args[0]}, exit code ${await child.exited}).`)
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

export interface Usage {
  /** User and system time so far, of all threads. */
  readonly cpuMs: number
  /** The most memory it ever held. */
  readonly peakRssMiB: number
  /** What it holds now. */
  readonly rssMiB: number
}

/** Ticks a second of the times in /proc, the same on all Linux machines of today. */
const TICKS_PER_SECOND = 100

/** What a process has used; NaN where the system does not say (there is no /proc). */
export function readUsage(pid: number): Usage {
  try {
    // The name, in parentheses, may hold anything; after it, user and system time are the 12th and 13th.
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
