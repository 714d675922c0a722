import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { SQL } from 'bun'
import { describePostgres, findStepDownObstacle, readClusterStatus } from '#app/cluster/status.ts'
import { ClusterStatus } from '#platform/replication/cluster-status.ts'
import { eventually } from '#test/support/app.ts'
import { isPostgresAvailable, startPostgresStandby } from '#test/support/postgres.ts'
import { createNode, createStatus, LEADER, usePostgres, writeCluster } from './fixture.ts'

setDefaultTimeout(300_000)

describe.skipIf(!isPostgresAvailable())('with PostgreSQL', () => {
  const cluster = usePostgres()

  test('the status has the head, the log and each node, and a silent node is lost', async () => {
    await writeCluster(cluster.sql, [
      { name: 'c', state: 'copying', applied: 40, lagMs: 3000 },
      { name: 'b', applied: 88, lagMs: 40 },
      { name: 'd', applied: 50, lagMs: 1000, seenSecondsAgo: 60 },
      LEADER,
    ])
    const status = await readClusterStatus(cluster.sql)
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
    await writeCluster(cluster.sql, [LEADER])
    await cluster.sql`UPDATE tassis_cluster SET released = true`
    expect((await readClusterStatus(cluster.sql)).leader).toBeNull()
    await cluster.sql`UPDATE tassis_cluster SET released = false, at = now() - '16 s'::interval`
    expect((await readClusterStatus(cluster.sql)).leader).toBeNull()
  })

  test('a former leader that was not seen since another leads is lost', async () => {
    await writeCluster(cluster.sql, [{ ...LEADER, name: 'b', seenSecondsAgo: 6 }, LEADER])
    const { nodes } = await readClusterStatus(cluster.sql)
    expect(nodes.map(({ name, role, state }) => [name, role, state])).toEqual([
      ['a', 'leader', 'leading'],
      ['b', 'standby', 'lost'],
    ])
  })

  test('an empty log has no first row, and a failover is as it was written', async () => {
    await writeCluster(cluster.sql, [])
    await cluster.sql`TRUNCATE tassis_log`
    const failover = { at: '2026-11-29T18:00:00.500Z', from: 'b', to: 'a', reason: 'silence' } as const
    await cluster.sql`UPDATE tassis_cluster SET last_failover = ${{ ...failover, at: '2026-11-29T19:00:00.5+01:00' }}::jsonb`
    const { log, last_failover, nodes } = await readClusterStatus(cluster.sql)
    expect([log.rows, log.first_seq, last_failover, nodes]).toEqual([0, null, failover, []])
  })

  test('PostgreSQL without a standby keeps its commits, unless its settings give them up', async () => {
    const [major = ''] = (await describePostgres(cluster.sql)).version.split('.')
    expect(Number(major)).toBeGreaterThan(9)
    expect(await describePostgres(cluster.sql)).toMatchObject({
      synchronous_commit: 'on',
      synchronous_standbys: 0,
      problem: null,
    })
    for (const value of ['off', 'local']) {
      await cluster.sql.unsafe(`SET synchronous_commit = ${value}`)
      expect((await describePostgres(cluster.sql)).problem).toStartWith(`synchronous_commit is ${value}: `)
    }
    await cluster.sql`RESET synchronous_commit`
    for (const name of ['full_page_writes', 'fsync']) {
      await cluster.postgres.configure({ [name]: 'off' })
      await eventually(async () => (await describePostgres(cluster.sql)).problem?.startsWith(`${name} is off: `))
      await cluster.postgres.configure({ [name]: 'on' })
    }
    await eventually(async () => (await describePostgres(cluster.sql)).problem === null)
  })

  test('a synchronous standby that is away is a problem, since every commit waits for it', async () => {
    await cluster.postgres.configure({ synchronous_standby_names: "'*'" })
    await eventually(async () => (await describePostgres(cluster.sql)).problem?.startsWith('The synchronous standby'))
    await cluster.postgres.configure({ synchronous_standby_names: "''" })
    await eventually(async () => (await describePostgres(cluster.sql)).problem === null)
  })

  test('an asynchronous standby is a problem, a synchronous one is not, and who may not see how many is told so', async () => {
    await using _ = await startPostgresStandby(cluster.postgres, { isSynchronous: false })
    expect((await describePostgres(cluster.sql)).problem).toStartWith('No standby of PostgreSQL is synchronous')
    await cluster.postgres.query("CREATE ROLE plain LOGIN PASSWORD 'secret'")
    const plain = new SQL(cluster.postgres.url.replace('//tassis:', '//plain:'), { max: 1 })
    expect((await describePostgres(plain)).problem).toStartWith('No standby of PostgreSQL is synchronous')
    await cluster.postgres.configure({ synchronous_standby_names: "'*'" })
    await eventually(async () => (await describePostgres(cluster.sql)).synchronous_standbys === 1)
    expect((await describePostgres(cluster.sql)).problem).toBeNull()
    await eventually(async () => (await describePostgres(plain)).problem === null)
    expect((await describePostgres(plain)).synchronous_standbys).toBeNull()
    await cluster.postgres.configure({ synchronous_standby_names: "''" })
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
