/**
 * @module SOCKS5 proxies for tests, on 127.0.0.1: Debian's microsocks and Dante, each with an address of its own for its
 * connections, and one that lies as a test says.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createFolder } from './folder.ts'
import { findFreePort } from './free-port.ts'

export interface SocksServer extends AsyncDisposable {
  readonly port: number
}

/** `user:password` of the microsocks of tests. */
export const LOGIN = { user: 'tassis', password: 'hun@ter,2' }
/** The same in a URL. */
export const LOGIN_URL = 'tassis:hun%40ter%2C2'

const findProgram = (name: string): string | null => Bun.which(name, { PATH: `${process.env['PATH']}:/usr/sbin` })

/** Whether both programs are installed. Logs the reason once if not, unless `CI` demands the tests. */
export function areProxiesAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_SOCKS'] === 'true') return true
  const isInstalled = findProgram('microsocks') !== null && findProgram('danted') !== null
  if (!isInstalled) console.warn('Tests with proxies are skipped: microsocks and dante-server are not installed')
  return isInstalled
}

async function run(command: readonly string[], port: number): Promise<SocksServer> {
  const [program = '', ...options] = command
  const child = Bun.spawn([findProgram(program) ?? program, ...options], { stdout: 'ignore', stderr: 'ignore' })
  while (!(await accepts(port))) if (child.exitCode !== null) throw new Error(`${program} ended`)
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const { promise, resolve } = Promise.withResolvers<boolean>()
  socket.once('connect', () => resolve(true)).once('error', () => setTimeout(() => resolve(false), 20))
  return promise.finally(() => socket.destroy())
}

/** @param from the address of its connections */
export async function startMicrosocks(
  from: string,
  { port, login = LOGIN }: { readonly port?: number; readonly login?: typeof LOGIN | null } = {},
): Promise<SocksServer> {
  const listening = port ?? (await findFreePort())
  const demand = login ? ['-u', login.user, '-P', login.password] : []
  return run(['microsocks', '-i', '127.0.0.1', '-p', String(listening), '-b', from, ...demand], listening)
}

/** Dante, which asks for no login, and connects to all but one address. */
export async function startDante(from: string, blocked: string): Promise<SocksServer> {
  const port = await findFreePort()
  const user = Bun.spawnSync(['id', '-un']).stdout.toString().trim()
  const folder = createFolder({
    'danted.conf': `logoutput: stderr
internal: 127.0.0.1 port = ${port}
external: ${from}
clientmethod: none
socksmethod: none
user.privileged: ${user}
user.unprivileged: ${user}
client pass { from: 127.0.0.0/8 to: 0.0.0.0/0 }
socks block { from: 0.0.0.0/0 to: ${blocked}/32 }
socks pass { from: 127.0.0.0/8 to: 0.0.0.0/0 command: connect }
`,
  })
  const server = await run(['danted', '-f', folder.pathOf('danted.conf'), '-p', folder.pathOf('danted.pid')], port)
  return {
    port,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      folder[Symbol.dispose]()
    },
  }
}

export interface LyingProxy extends SocksServer {
  /** What it answers to each message of a client, in order; nothing more once they are used up. `end` closes. */
  answers: readonly (Uint8Array | 'end')[]
  /** All messages of all clients. */
  readonly heard: readonly Buffer[]
}

export const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values)
/** It asks for no login. */
export const NO_LOGIN = bytes(5, 0)
/** A reply of RFC 1928 §6 with this code. */
export const reply = (code: number): Uint8Array => bytes(5, code, 0, 1, 0, 0, 0, 0, 0, 0)

export async function startLyingProxy(answers: LyingProxy['answers'], port = 0): Promise<LyingProxy> {
  const sockets = new Set<Socket>()
  const heard: Buffer[] = []
  const server = createServer((socket) => {
    sockets.add(socket)
    let next = 0
    socket.on('error', () => undefined)
    socket.on('data', (data: Buffer) => {
      heard.push(data)
      const answer = lying.answers[next++]
      if (answer === 'end') socket.end()
      else if (answer) socket.write(answer)
    })
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  const lying = {
    port: (server.address() as AddressInfo).port,
    answers,
    heard,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
  return lying
}
