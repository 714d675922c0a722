/** @module Tests that alerts, dashboard and documents fit the metrics that the service has. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { parser } from '@prometheus-io/lezer-promql'
import { MetricsEndpoint } from '#app/metrics/metrics.ts'
import { formatReadings, readClusterMetrics } from '#app/metrics/table.ts'
import { createNode, createStatus } from '#test/app/cluster/fixture.ts'
import { createFinding } from '#test/app/doctor/fixture.ts'
import { createTestApp } from '#test/support/app.ts'
import { DASHBOARD_PATH, formatDashboard, listQueries } from '../../../scripts/grafana-dashboard.ts'

// promtool runs for some seconds, longer on a busy machine.
setDefaultTimeout(300_000)

const ROOT = join(import.meta.dir, '../../..')
const PROMETHEUS = join(ROOT, 'contrib/prometheus')
const promtool = Bun.which('promtool')

/** What Prometheus itself adds about each target. */
const OF_PROMETHEUS = ['up', 'ALERTS']

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
}

const { groups } = Bun.YAML.parse(await Bun.file(join(PROMETHEUS, 'alerts.yml')).text()) as {
  groups: readonly { readonly rules: readonly Alert[] }[]
}
const alerts = groups.flatMap(({ rules }) => rules)
const document = await Bun.file(join(ROOT, 'docs/metrics.md')).text()

const STATUS = {
  ...createStatus(createNode('b', { lag_ms: 1500 }), createNode('c', { state: 'lost', lag_ms: 90_000 })),
  last_failover: { at: '2026-11-29T18:00:00.500Z', from: 'b', to: 'a', reason: 'silence' },
} as const

/** The text of a scrape of a service that has done nothing. */
async function scrapeNewService(): Promise<string> {
  await using service = await createTestApp()
  Object.assign(service.app, { cluster: { status: () => STATUS } })
  const endpoint = new MetricsEndpoint()
  endpoint.sink.appended(2.5, 7500)
  const { port } = endpoint.listen(
    { host: '127.0.0.1', port: 0 },
    {
      opened: service.opened,
      delivery: () => undefined,
      inbound: () => undefined,
      submission: () => undefined,
      isStopping: () => false,
      doctorReport: () => ({
        checked_at: null,
        findings: [
          createFinding('spf', 'failure'),
          createFinding('webhooks', 'warning'),
          createFinding('webhooks', 'warning'),
        ],
      }),
      version: '1.2.3 (abc, 2026-11-23)',
    },
  )
  try {
    return await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  } finally {
    await endpoint.stop()
  }
}

const text = await scrapeNewService()
const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]))
const helps = new Map([...text.matchAll(/^# HELP (\S+) (.+)$/gm)].map(([, name = '', help = '']) => [name, help]))

/** The series that a query can select. */
const SERIES = new Set([
  ...OF_PROMETHEUS,
  ...[...types].flatMap(([name, type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((end) => name + end) : [name],
  ),
])

/** The mistakes of a query: where it cannot be parsed, and series that no service has. */
function checkQuery(query: string): string[] {
  const filled = query.replaceAll('$__rate_interval', '5m')
  const mistakes: string[] = []
  parser.parse(filled).iterate({
    enter({ type, name, from, to }) {
      const part = filled.slice(from, to)
      if (type.isError) mistakes.push(`no PromQL at ${from}: ${filled}`)
      else if (name === 'VectorSelector' || name === 'Identifier') {
        const [series = ''] = /^\w*/.exec(part) ?? []
        if (name === 'VectorSelector' && !SERIES.has(series)) mistakes.push(`no such series: ${part}`)
      }
    },
  })
  return mistakes
}

test('the check of queries finds unknown series and bad syntax', () => {
  expect(checkQuery('sum(rate(tassis_log_lines_total[5m]))')).toEqual([])
  expect(checkQuery('sum(rate(tassis_lines_total[5m]))')).toEqual(['no such series: tassis_lines_total'])
  expect(checkQuery('sum(tassis_ready')).not.toEqual([])
})

test('names and help texts follow the conventions of Prometheus', () => {
  expect(types.size).toBeGreaterThan(40)
  const mistakes = [...types].flatMap(([name, type]) => [
    ...(/^(?:tassis|process)_[a-z_]+$/.test(name) ? [] : [`${name}: prefix`]),
    ...((type === 'counter') === name.endsWith('_total') ? [] : [`${name}: only counters end in _total`]),
    ...(/_(?:ms|milliseconds|minutes|kb|mb)(?:_|$)/.test(name) ? [`${name}: unit`] : []),
    ...(/^[A-Z1].*\.$/.test(helps.get(name) ?? '') ? [] : [`${name}: help is no sentence`]),
  ])
  expect(mistakes).toEqual([])
})

test('version and commit are labels', () => {
  expect(text).toContain('\ntassis_build_info{version="1.2.3",commit="abc"} 1\n')
})

test('findings are counted by check and status', () => {
  expect(text).toContain('\ntassis_check_findings{check="spf",status="failure"} 1\n')
  expect(text).toContain('\ntassis_check_findings{check="webhooks",status="warning"} 2\n')
})

test('the metrics of a cluster are those of its status, and a node that does not know it does not lead', () => {
  const lines = (of: string) => of.split('\n').filter((line) => line.startsWith('tassis_cluster_'))
  expect(text).toContain('\ntassis_cluster_append_seconds_count 1\n')
  expect(text).toContain('\ntassis_cluster_appended_bytes_total 7500\n')
  const onStandby = formatReadings(readClusterMetrics('b', STATUS))
  expect(formatReadings(readClusterMetrics('b', undefined))).toMatch(/\ntassis_cluster_leader 0\n$/)
  expect(lines(onStandby)).toEqual([
    'tassis_cluster_leader 0',
    'tassis_cluster_epoch 7',
    'tassis_cluster_sequence 90',
    'tassis_cluster_heartbeat_age_seconds 0.4',
    'tassis_cluster_nodes{state="leading"} 1',
    'tassis_cluster_nodes{state="following"} 1',
    'tassis_cluster_nodes{state="copying"} 0',
    'tassis_cluster_nodes{state="lost"} 1',
    'tassis_cluster_lag_seconds{node="b"} 1.5',
    'tassis_cluster_lag_seconds{node="c"} 90',
    'tassis_cluster_log_rows 50',
    'tassis_cluster_log_bytes 1000',
    'tassis_cluster_postgres_keeps_commits 1',
    'tassis_cluster_last_failover_timestamp_seconds{reason="silence"} 1795975200.5',
  ])
})

test('every query of the alerts and of the dashboard parses and names series of the service', () => {
  expect(alerts.flatMap(({ expr }) => checkQuery(expr))).toEqual([])
  expect(listQueries().flatMap(checkQuery)).toEqual([])
})

test('the dashboard file is up to date (bun scripts/grafana-dashboard.ts)', async () => {
  expect(await Bun.file(DASHBOARD_PATH).text()).toBe(formatDashboard())
})

test('docs/metrics.md lists every metric with its type and help', () => {
  const rows = [...types].map(([name, type]) => `| \`${name}\` | ${type} | ${helps.get(name)} |`).sort()
  expect(document.split('\n').filter((line) => line.startsWith('| `'))).toEqual(rows)
})

test('docs/metrics.md has a section for every alert and for no other, in the order of the rules', () => {
  expect([...document.matchAll(/^### (Tassis\w+)$/gm)].map(([, name]) => name)).toEqual(
    alerts.map(({ alert }) => alert),
  )
})

test('every alert has a unit test', async () => {
  const { tests } = Bun.YAML.parse(await Bun.file(join(PROMETHEUS, 'alerts.test.yml')).text()) as {
    tests: readonly { readonly name: string }[]
  }
  const names = tests.map(({ name }) => name)
  expect(alerts.map(({ alert }) => alert).filter((name) => !names.includes(name))).toEqual([])
})

/** Runs promtool, of Debian's package prometheus; returns its exit code and output. */
const runPromtool = (args: readonly string[], input = ''): [number, string] => {
  const { exitCode, stdout, stderr } = Bun.spawnSync([promtool ?? '', ...args], {
    cwd: PROMETHEUS,
    stdin: Buffer.from(input),
  })
  return [exitCode, `${stdout.toString()}${stderr.toString()}`]
}

test.skipIf(promtool === null)(
  'promtool finds no fault in the metrics and the alerts, and their unit tests pass',
  () => {
    expect(runPromtool(['check', 'metrics'], text)).toEqual([0, ''])
    expect(runPromtool(['check', 'rules', 'alerts.yml'])[0]).toBe(0)
    const [exitCode, output] = runPromtool(['test', 'rules', 'alerts.test.yml'])
    expect([exitCode, output]).toEqual([0, expect.stringContaining('SUCCESS')])
  },
)
