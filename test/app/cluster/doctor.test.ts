import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkCluster } from '#app/doctor/checks/cluster.ts'
import { checkService } from '#app/doctor/checks/state.ts'
import { KeyRing } from '#platform/crypto/crypto.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { isPostgresAvailable } from '#test/support/postgres.ts'
import { createContext, findAll, statuses } from '../doctor/fixture.ts'
import { LEADER, usePostgres, writeCluster } from './fixture.ts'

setDefaultTimeout(300_000)

const folder = mkdtempSync(join(tmpdir(), 'tassis-cluster-doctor-'))
const key = new Uint8Array(32).fill(7)
const keyFile = join(folder, 'master.key')
writeFileSync(keyFile, key.toBase64())
afterAll(() => rmSync(folder, { recursive: true }))

const check = async (url: string, settings: Readonly<Record<string, string>> = {}) => {
  using context = createContext({ TASSIS_REPLICATE: url, TASSIS_MASTER_KEY_FILE: keyFile, ...settings })
  return findAll(checkCluster(context))
}

test('a service that runs alone has no cluster to check', async () => {
  expect(statuses(await check(''))).toEqual(['skipped'])
})

test('PostgreSQL that does not answer is a failure, and a node without a service is none', async () => {
  const url = `postgres://tassis@127.0.0.1:${await findFreePort()}/tassis`
  expect(statuses(await check(url))).toEqual(['failure postgres'])
  using context = createContext({ TASSIS_REPLICATE: url })
  expect(statuses(await findAll(checkService(context)))).toEqual(['skipped'])
})

describe.skipIf(!isPostgresAvailable())('with PostgreSQL', () => {
  const cluster = usePostgres()

  const write = async (...nodes: Parameters<typeof writeCluster>[1]) => {
    await writeCluster(cluster.sql, nodes)
    await cluster.sql`UPDATE tassis_cluster SET key_fingerprint = ${new KeyRing(key).fingerprint()}`
  }

  test('a leader with a standby that follows is well', async () => {
    await write(LEADER, { name: 'b', version: '1.1.0' })
    const [found] = await check(cluster.postgres.url)
    expect([found?.status, found?.message]).toEqual([
      'ok',
      expect.stringMatching(/^a leads 2 nodes; PostgreSQL \d+\.\d+ keeps every commit\.$/),
    ])
  })

  test('each lost node, no standby and no leader are found', async () => {
    await write(LEADER, { name: 'b' }, { name: 'c', seenSecondsAgo: 90 })
    expect(statuses(await check(cluster.postgres.url))).toEqual(['warning c'])
    await write(LEADER, { name: 'b', state: 'copying' })
    expect(statuses(await check(cluster.postgres.url))).toEqual(['warning standby'])
    await cluster.sql`UPDATE tassis_cluster SET released = true`
    expect(statuses(await check(cluster.postgres.url))).toEqual(['failure leader'])
  })

  test('an older standby, another key and what loses commits are failures', async () => {
    await write(LEADER, { name: 'b', version: '0.9.0' })
    await cluster.sql`ALTER ROLE tassis SET synchronous_commit = off`
    try {
      const other = join(folder, 'other.key')
      writeFileSync(other, new Uint8Array(32).fill(8).toBase64())
      const found = await check(cluster.postgres.url, { TASSIS_MASTER_KEY_FILE: other })
      expect(statuses(found)).toEqual(['failure postgres', 'failure b', 'failure key'])
      expect(found[0]).toMatchObject({
        message: 'synchronous_commit is off: a crash of PostgreSQL loses the last commits.',
        fix: 'Set synchronous_commit = on.',
      })
    } finally {
      await cluster.sql`ALTER ROLE tassis RESET synchronous_commit`
    }
  })
})
