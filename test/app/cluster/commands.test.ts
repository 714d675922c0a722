import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { isPostgresAvailable } from '#test/support/postgres.ts'
import { runTassis, runTassisJson } from '../process.ts'
import { LEADER, usePostgres, writeCluster } from './fixture.ts'

setDefaultTimeout(300_000)

test('a service that runs alone is told how to add a standby', async () => {
  const shown = await runTassis(['cluster'], {})
  expect([shown.exitCode, shown.stdout]).toEqual([
    0,
    expect.stringMatching(/^This service runs alone: .*docs\/scaling\.md/),
  ])
  expect(await runTassis(['cluster', '--json'], {})).toMatchObject({ exitCode: 0, stdout: '{\n  "data": null\n}\n' })
  const refused = await runTassis(['cluster', 'step-down', '--json'], {})
  expect([refused.exitCode, JSON.parse(refused.stderr)]).toMatchObject([1, { error: { code: 'no_cluster' } }])
})

test('PostgreSQL that does not answer is named in one sentence', async () => {
  const TASSIS_REPLICATE = `postgres://tassis:secret@127.0.0.1:${await findFreePort()}/tassis`
  const { exitCode, stderr } = await runTassis(['cluster'], { TASSIS_REPLICATE })
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^tassis: PostgreSQL at 127\.0\.0\.1:\d+: .*\n$/)])
  expect(stderr).not.toContain('secret')
})

describe.skipIf(!isPostgresAvailable())('with PostgreSQL', () => {
  const cluster = usePostgres()

  const run = (...args: readonly string[]) =>
    runTassis(['cluster', ...args], { TASSIS_REPLICATE: cluster.postgres.url })
  const readRequest = async () => (await cluster.sql`SELECT step_down, wanted FROM tassis_cluster`)[0]

  test('a database without tables has no cluster yet', async () => {
    await cluster.sql.unsafe(
      'DROP TABLE IF EXISTS tassis_snapshot_parts, tassis_snapshots, tassis_nodes, tassis_log, tassis_cluster',
    )
    const { exitCode, stderr } = await run()
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('has no cluster yet')])
  })

  test('the nodes are listed with what they do, and what asks for something stands below them', async () => {
    await writeCluster(cluster.sql, [LEADER, { name: 'b', applied: 88, lagMs: 40 }])
    const { stdout } = await run()
    expect(stdout).toMatch(/^Leader: {8}a, since 2026-11-29 18:00:00Z/)
    expect(stdout).toMatch(/\nLast failover: none\nLog: {11}50 rows, .* newest 90, epoch 7\nPostgreSQL: {4}\d/)
    expect(stdout).toMatch(/\nb +standby +following +2 rows, 0\.0 s +\S.* +1\.0\.0 +b\.example +192\.0\.2\.1\n$/)
    await writeCluster(cluster.sql, [LEADER, { name: 'b', seenSecondsAgo: 90 }])
    await cluster.sql`UPDATE tassis_cluster SET last_failover =
      ${{ at: '2026-11-29T18:00:00.500Z', from: 'b', to: 'a', reason: 'silence' }}::jsonb`
    const lost = (await run()).stdout
    expect(lost).toMatch(/\nLast failover: 2026-11-29 18:00:00Z .*, from b to a: it was silent\n/)
    expect(lost).toContain('\nWARNING: No standby follows: ')
    expect(lost).toContain('\nWARNING: The node b was last seen at 20')
    await cluster.sql`UPDATE tassis_cluster SET released = true`
    expect((await run()).stdout).toContain('\nFAILURE: No node leads, ')
    expect(await runTassisJson(['cluster'], { TASSIS_REPLICATE: cluster.postgres.url })).toMatchObject({
      epoch: 7,
      seq: 90,
    })
  })

  test('step-down asks the leader, and says which node leads then', async () => {
    await writeCluster(cluster.sql, [LEADER, { name: 'b' }, { name: 'c' }])
    const takeOver = async () => {
      expect(await eventually(async () => (await readRequest()).step_down && readRequest())).toEqual({
        step_down: true,
        wanted: 'c',
      })
      await cluster.sql`UPDATE tassis_cluster SET leader = 'c', epoch = 8, step_down = false, wanted = '', at = now() + interval '1 h'`
    }
    const [{ exitCode, stdout }] = await Promise.all([run('step-down', '--to', 'c'), takeOver()])
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^c leads now, after \d+\.\d s; a follows it/)])
  })

  test('step-down changes nothing when no standby follows closely, or the node is unknown', async () => {
    await writeCluster(cluster.sql, [LEADER, { name: 'b', lagMs: 43_000 }])
    for (const [args, message] of [
      [[], 'No standby follows closely: b is 43 s behind'],
      [['--to', 'x'], 'There is no node x in the cluster; it has a, b.'],
      [['--to', 'a'], 'a leads already.'],
    ] as const) {
      const { exitCode, stderr } = await run('step-down', ...args)
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining(message)])
    }
    expect(await readRequest()).toEqual({ step_down: false, wanted: '' })
  })

  test('a leader that leads again after step-down is reported', async () => {
    await writeCluster(cluster.sql, [LEADER, { name: 'b' }])
    const leadAgain = async () => {
      await eventually(async () => (await readRequest()).step_down)
      await cluster.sql`UPDATE tassis_cluster SET epoch = 8, step_down = false, at = now() + interval '1 h'`
    }
    const [{ exitCode, stderr }] = await Promise.all([run('step-down'), leadAgain()])
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('a leads again')])
  })
})
