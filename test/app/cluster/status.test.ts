import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { SQL } from 'bun'
import { describePostgres, findStepDownObstacle, readClusterStatus } from '#app/cluster/status.ts'
import { ClusterStatus } from '#platform/replication/cluster-status.ts'
import { eventually } from '#test/support/app.ts'
import { isPostgresAvailable, type Postgres, startPostgres, startPostgresStandby } from '#test/support/postgres.ts'
import { createNode, createStatus, KEEPS_COMMITS, LEADER, writeCluster } from './fixture.ts'

setDefaultTimeout(300_000)

describe.skipIf(!isPostgresAvailable())('with PostgreSQL', () => {
  let postgres: Postgres
  let sql: SQL
  beforeAll(async () => {
    postgres = await startPostgres({ settings: KEEPS_COMMITS })
    sql = new SQL(postgres.url, { max: 1 })
  })
  afterAll(async () => {
    await sql?.close()
    await postgres?.[Symbol.asyncDispose]()
  })

  test('the status has the head, the log and each node, and a silent node is lost', async () => {
    await writeCluster(sql, [
      { name: 'c', state: 'copying', applied: 40, lagMs: 3000 },
      { name: 'b', applied: 88, lagMs: 40 },
      { name: 'd', applied: 50, lagMs: 1000, seenSecondsAgo: 60 },
      LEADER,
    ])
    const status = await readClusterStatus(sql)
    expect(Value.Check(ClusterStatus, status)).toBe(true)
    expect(status).toMatchObject({
      cluster_id: '00000000-0000-4000-8000-000000000001',
      epoch: 7,
      seq: 90,
      leader: 'a',
      leader_since: '2026-11-29T18:00:00.500Z',
      last_failover: null,
      log: { rows: 50, first_seq: 41 },
    })
    expect(status.heartbeat_age_ms).toBe(0)
    expect(status.log.bytes).toBeGreaterThan(0)
    expect(status.nodes.map(({ name, role, state, behind }) => [name, role, state, behind])).toEqual([
      ['a', 'leader', 'leading', 0],
      ['b', 'standby', 'following', 2],
      ['c', 'standby', 'copying', 50],
      ['d', 'standby', 'lost', 40],
    ])
    expect(status.nodes[3]?.lag_ms).toBeGreaterThanOrEqual(60_000)
    expect(status.nodes[1]).toMatchObject({ lag_ms: 40, hostname: 'b.example', outbound_ips: ['192.0.2.1'] })
  })

  test('nobody leads when the leader has stopped, or was not heard of for 15 seconds', async () => {
    await writeCluster(sql, [LEADER])
    await sql`UPDATE tassis_cluster SET released = true`
    expect((await readClusterStatus(sql)).leader).toBeNull()
    await sql`UPDATE tassis_cluster SET released = false, at = now() - '16 s'::interval`
    expect((await readClusterStatus(sql)).leader).toBeNull()
  })

  test('a former leader that was not seen since another leads is lost', async () => {
    await writeCluster(sql, [{ ...LEADER, name: 'b', seenSecondsAgo: 6 }, LEADER])
    const { nodes } = await readClusterStatus(sql)
    expect(nodes.map(({ name, role, state }) => [name, role, state])).toEqual([
      ['a', 'leader', 'leading'],
      ['b', 'standby', 'lost'],
    ])
  })

  test('an empty log has no first row, and a failover is as it was written', async () => {
    await writeCluster(sql, [])
    await sql`TRUNCATE tassis_log`
    const failover = { at: '2026-11-29T18:00:00.500Z', from: 'b', to: 'a', reason: 'silence' } as const
    await sql`UPDATE tassis_cluster SET last_failover = ${{ ...failover, at: '2026-11-29T19:00:00.5+01:00' }}::jsonb`
    const { log, last_failover, nodes } = await readClusterStatus(sql)
    expect([log.rows, log.first_seq, last_failover, nodes]).toEqual([0, null, failover, []])
  })

  test('PostgreSQL without a standby keeps its commits, unless its settings give them up', async () => {
    const [major = ''] = (await describePostgres(sql)).version.split('.')
    expect(Number(major)).toBeGreaterThan(9)
    expect(await describePostgres(sql)).toMatchObject({
      synchronous_commit: 'on',
      synchronous_standbys: 0,
      problem: null,
    })
    for (const value of ['off', 'local']) {
      await sql.unsafe(`SET synchronous_commit = ${value}`)
      expect((await describePostgres(sql)).problem).toStartWith(`synchronous_commit is ${value}: `)
    }
    await sql`RESET synchronous_commit`
    for (const name of ['full_page_writes', 'fsync']) {
      await postgres.configure({ [name]: 'off' })
      await eventually(async () => (await describePostgres(sql)).problem?.startsWith(`${name} is off: `))
      await postgres.configure({ [name]: 'on' })
    }
    await eventually(async () => (await describePostgres(sql)).problem === null)
  })

  test('a synchronous standby that is away is a problem, since every commit waits for it', async () => {
    await postgres.configure({ synchronous_standby_names: "'*'" })
    await eventually(async () => (await describePostgres(sql)).problem?.startsWith('The synchronous standby'))
    await postgres.configure({ synchronous_standby_names: "''" })
    await eventually(async () => (await describePostgres(sql)).problem === null)
  })

  test('an asynchronous standby is a problem, a synchronous one is not, and who may not see how many is told so', async () => {
    await using _ = await startPostgresStandby(postgres, { isSynchronous: false })
    expect((await describePostgres(sql)).problem).toStartWith('No standby of PostgreSQL is synchronous')
    await postgres.query("CREATE ROLE plain LOGIN PASSWORD 'secret'")
    const plain = new SQL(postgres.url.replace('//tassis:', '//plain:'), { max: 1 })
    expect((await describePostgres(plain)).problem).toStartWith('No standby of PostgreSQL is synchronous')
    await postgres.configure({ synchronous_standby_names: "'*'" })
    await eventually(async () => (await describePostgres(sql)).synchronous_standbys === 1)
    expect((await describePostgres(sql)).problem).toBeNull()
    await eventually(async () => (await describePostgres(plain)).problem === null)
    expect((await describePostgres(plain)).synchronous_standbys).toBeNull()
    await postgres.configure({ synchronous_standby_names: "''" })
    await plain.close()
  })
})

test('the leader gives way only to a standby that follows closely', () => {
  const late = createNode('b', { behind: 800, lag_ms: 43_000 })
  const copying = createNode('c', { state: 'copying' })
  const lost = createNode('d', { state: 'lost', seen_ms_ago: 61_000, lag_ms: 61_000 })
  const obstacle = (status: ClusterStatus, to?: string) => {
    const { code, message } = findStepDownObstacle(status, to) ?? { code: 'none', message: '' }
    return `${code}: ${message.split('. ')[0]}`
  }
  expect(obstacle(createStatus(late, createNode('e')))).toStartWith('none')
  expect(obstacle(createStatus(late, createNode('e')), 'e')).toStartWith('none')
  expect(obstacle(createStatus())).toBe('no_standby_follows: There is no standby')
  expect(obstacle(createStatus(late, copying, lost))).toBe(
    'no_standby_follows: No standby follows closely: b is 43 s behind; c takes a snapshot; d was last seen 61 s ago',
  )
  expect(obstacle(createStatus(createNode('e'), lost), 'd')).toBe(
    'no_standby_follows: No standby follows closely: d was last seen 61 s ago',
  )
  expect(obstacle(createStatus(createNode('e')), 'x')).toBe(
    'node_unknown: There is no node x in the cluster; it has a, e.',
  )
  expect(obstacle(createStatus(createNode('e')), 'a')).toBe('already_leader: a leads already.')
  expect(obstacle({ ...createStatus(createNode('e')), leader: null })).toStartWith('no_leader')
})
