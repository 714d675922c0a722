/** @module Nodes of a cluster as processes, each with a data directory of its own. */
import { copyFileSync, existsSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { attempt } from '#platform/errors.ts'
import { findFreePort } from '#test/support/free-port.ts'
import type { Postgres } from '#test/support/postgres.ts'
import { createDataFolder, type DataFolder, MAIN, type Settings, setUpAccount } from '../process.ts'

/** What a data directory needs to be that of a node. */
export interface Site extends Disposable {
  readonly path: string
  readonly url: string
  readonly settings: Settings
}

/** @param keyOf the node whose master key it gets; default: a new one at the first start */
export async function createSite(name: string, replicate: string, keyOf?: Site): Promise<Site> {
  const folder: DataFolder = createDataFolder()
  const port = await findFreePort()
  if (keyOf && existsSync(join(keyOf.path, 'master.key')))
    copyFileSync(join(keyOf.path, 'master.key'), join(folder.path, 'master.key'))
  return {
    path: folder.path,
    url: `http://127.0.0.1:${port}`,
    settings: {
      ...folder.settings,
      TASSIS_HTTP_ADDR: `127.0.0.1:${port}`,
      TASSIS_METRICS_ADDR: '',
      TASSIS_LOG_LEVEL: 'info',
      TASSIS_REPLICATE: replicate,
      TASSIS_NODE: name,
      TASSIS_TAKEOVER_SECONDS: '2',
    },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  }
}

/** Makes the directory, as a service of its own, that of an account; then closes it. */
export async function setUpSite({ path, settings }: Site): Promise<{ key: string }> {
  const account = await setUpAccount({ ...settings, TASSIS_REPLICATE: '' }, { verified: true })
  // SQLite keeps a database open until its last statement is collected as garbage, and a node waits for that.
  while (isOpen(path)) {
    Bun.gc(true)
    await Bun.sleep(1)
  }
  return account
}

const isOpen = (folder: string): boolean =>
  readdirSync('/proc/self/fd').some((fd) => attempt(() => readlinkSync(`/proc/self/fd/${fd}`))?.startsWith(folder))

export interface Node extends AsyncDisposable {
  readonly site: Site
  readonly pid: number
  output(): string
  /** Resolves once its output matches so often; throws when it ends before. */
  says(pattern: RegExp, times?: number): Promise<void>
  /** Resolves with the answer of `/readyz` once it has this status and its message matches. */
  isReady(status?: number, message?: RegExp): Promise<void>
  stop(): Promise<number>
}

export function startNode(site: Site, settings: Settings = {}): Node {
  const child = Bun.spawn([process.execPath, MAIN, 'serve'], {
    env: { PATH: process.env['PATH'] ?? '', ...site.settings, ...settings },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    void (async () => {
      for await (const chunk of stream.pipeThrough(new TextDecoderStream())) output += chunk
    })()
  const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await condition())) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the node has ended: ${output}`)
      await Bun.sleep(50)
    }
  }
  return {
    site,
    pid: child.pid,
    output: () => output,
    says: (pattern, times = 1) => until(() => (output.match(pattern)?.length ?? 0) >= times),
    isReady: (status = 200, message = /(?:)/) =>
      until(async () => {
        const response = await fetch(`${site.url}/readyz`).catch(() => undefined)
        return response?.status === status && message.test(await response.text())
      }),
    async stop() {
      child.kill('SIGTERM')
      return child.exited
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

let databases = 0

/** Creates an empty database. */
export async function createDatabase(server: Postgres): Promise<{ url: string; query: SQL } & AsyncDisposable> {
  const name = `cluster${++databases}`
  await server.query(`CREATE DATABASE ${name}`)
  const url = server.url.replace(/[^/]+$/, name)
  const query = new SQL(url, { max: 1 })
  return { url, query, [Symbol.asyncDispose]: () => query.close({ timeout: 0 }) }
}
