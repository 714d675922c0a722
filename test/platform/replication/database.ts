/** @module An empty log in PostgreSQL, for tests of those who write and read it. */
import { SQL } from 'bun'
import { checksum, type Entry, packEntries } from '#platform/replication/entries.ts'
import { type NewRow, ReplicationLog } from '#platform/replication/log.ts'
import { Postgres } from '#platform/replication/postgres.ts'
import type { Postgres as Server } from '#test/support/postgres.ts'

let databases = 0

/** Creates an empty database in the server. @returns its address, as TASSIS_REPLICATE names it */
export async function createDatabase(server: Server): Promise<string> {
  const name = `log${++databases}`
  await server.query(`CREATE DATABASE ${name}`)
  return server.url.replace(/[^/]+$/, name)
}

export interface TestLog extends AsyncDisposable {
  readonly url: string
  readonly log: ReplicationLog
  /** Another connection to the same database. */
  readonly sql: SQL
  /** Makes a node the leader at the end of the log; resolves with the epoch. */
  lead(node: string): Promise<number>
  /** Opens the log over another address. */
  openAt(url: string): ReplicationLog
}

export const CLUSTER = '00000000-0000-4000-8000-000000000001'

/** A log that a node has begun. */
export async function createLog(server: Server): Promise<TestLog> {
  const url = await createDatabase(server)
  const opened: ReplicationLog[] = []
  const openAt = (address: string) => {
    const log = new ReplicationLog(new Postgres(address))
    opened.push(log)
    return log
  }
  const log = openAt(url)
  await log.createTables()
  await log.begin(CLUSTER, 'key', '1.0.0')
  const sql = new SQL(url, { max: 1 })
  return {
    url,
    log,
    sql,
    openAt,
    async lead(node) {
      const row = await log.readCluster()
      const epoch = row && (await log.takeOver(row, row.seq, { node, version: '1.0.0', schema: '' }, 'stop'))
      if (epoch === undefined) throw new Error('the log has another leader')
      return epoch
    },
    async [Symbol.asyncDispose]() {
      await sql.close({ timeout: 0 })
      for (const { postgres } of opened) await postgres.close()
    },
  }
}

/** An entry that says something by its bytes. */
export const toEntry = (bytes: string | Uint8Array): Entry => ({
  kind: 'file',
  file: 'instance.json',
  bytes: Buffer.from(bytes as string),
})

export function toRow(text: string, isWhole = true): NewRow {
  const data = packEntries([toEntry(text)])
  return { isWhole, what: text, crc: checksum(data), data }
}
