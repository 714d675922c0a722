/**
 * @module A private OpenDKIM for tests and benchmarks: Debian's program as a milter on a free port of 127.0.0.1, which signs the mail
 * of one domain and says so in the field DKIM-Filter. Leaves the system's own OpenDKIM alone.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from './app.ts'
import { dkimKeyFromFile } from './dkim-keys.ts'
import { findFreePort } from './free-port.ts'

const PROGRAM = '/usr/sbin/opendkim'

export const isOpenDkimAvailable = (): boolean => existsSync(PROGRAM)

export interface OpenDkim extends AsyncDisposable {
  readonly pid: number
  readonly port: number
}

/** Starts an instance and resolves when it takes connections. @param others settings besides the usual ones */
export async function startOpenDkim(domain: string, others: Readonly<Record<string, string>> = {}): Promise<OpenDkim> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-opendkim-'))
  const port = await findFreePort()
  const { privateKeyPem } = await dkimKeyFromFile()
  writeFileSync(join(folder, 'key.pem'), privateKeyPem, { mode: 0o600 })
  const settings = {
    Socket: `inet:${port}@127.0.0.1`,
    PidFile: join(folder, 'pid'),
    Background: 'no',
    Syslog: 'no',
    Mode: 's',
    Domain: domain,
    Selector: 'relay',
    KeyFile: join(folder, 'key.pem'),
    // The version and the host in DKIM-Filter, as older installations have it.
    SoftwareHeader: 'yes',
    // Others can write to the folder above, the temporary one.
    RequireSafeKeys: 'no',
    ...others,
  }
  const file = join(folder, 'opendkim.conf')
  writeFileSync(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(''),
  )
  const child = Bun.spawn([PROGRAM, '-f', '-x', file], { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' })
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`OpenDKIM ended: ${await child.stderr.text()}`)
    return canConnect(port)
  })
  return {
    pid: child.pid,
    port,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const canConnect = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
