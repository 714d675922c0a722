/**
 * @module Writes contrib/grafana/tassis.json: `bun scripts/grafana-dashboard.ts`. The types are Grafana's published
 * schema, so the compiler checks the dashboard against it.
 */
import { join } from 'node:path'
import {
  type Dashboard,
  defaultFieldConfigSource,
  GraphDrawStyle,
  type GraphFieldConfig,
  LegendDisplayMode,
  type Panel,
  type RowPanel,
  SortOrder,
  StackingMode,
  TooltipDisplayMode,
  VariableRefresh,
  type VizLegendOptions,
  type VizTooltipOptions,
} from '@grafana/schema'

export const DASHBOARD_PATH = join(import.meta.dir, '../contrib/grafana/tassis.json')

/** Version of the schema of the file, which Grafana 9 and later read; newer ones migrate it. */
const SCHEMA_VERSION = 37
const COLUMNS = 24
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }
/** Matches the chosen instance. */
const HERE = 'instance=~"$instance"'
const RATE = '[$__rate_interval]'

interface Graph {
  readonly title: string
  /** A unit of Grafana, such as `s` or `bytes`. */
  readonly unit: string
  /** Queries by their legend. */
  readonly queries: Readonly<Record<string, string>>
  readonly isStacked?: true
  /** Shows the last value alone. */
  readonly isStat?: true
  readonly description?: string
}

const rate = (metric: string, by: string, labels = ''): string =>
  `sum by (${by}) (rate(${metric}{${HERE}${labels && `, ${labels}`}}${RATE}))`
const quantile = (q: number, metric: string, by = '', labels = ''): string =>
  `histogram_quantile(${q}, ${rate(`${metric}_bucket`, by === '' ? 'le' : `le, ${by}`, labels)})`
const gauge = (metric: string, by = ''): string =>
  by === '' ? `sum(${metric}{${HERE}})` : `sum by (${by}) (${metric}{${HERE}})`
const fractionOf = (outcome: string): string =>
  `sum(increase(tassis_delivery_attempts_total{${HERE}, outcome="${outcome}"}[1h])) / sum(increase(tassis_delivery_attempts_total{${HERE}}[1h]))`

const ROWS: Readonly<Record<string, readonly Graph[]>> = {
  Overview: [
    { title: 'Ready', unit: 'bool_yes_no', isStat: true, queries: { ready: `min(tassis_ready{${HERE}})` } },
    {
      title: 'Recipients waiting',
      unit: 'short',
      isStat: true,
      queries: { waiting: gauge('tassis_queue_recipients') },
    },
    {
      title: 'Most overdue',
      unit: 's',
      isStat: true,
      queries: { overdue: `max(tassis_queue_oldest_due_seconds{${HERE}})` },
    },
    { title: 'Bounced, last hour', unit: 'percentunit', isStat: true, queries: { bounced: fractionOf('bounced') } },
    { title: 'Deferred, last hour', unit: 'percentunit', isStat: true, queries: { deferred: fractionOf('deferred') } },
    {
      title: 'Providers suspended',
      unit: 'short',
      isStat: true,
      queries: { suspended: gauge('tassis_provider_suspensions') },
    },
  ],
  Acceptance: [
    {
      title: 'Emails accepted',
      unit: 'ops',
      isStacked: true,
      queries: { '{{kind}}': rate('tassis_emails_accepted_total', 'kind') },
    },
    {
      title: 'HTTP responses',
      unit: 'reqps',
      isStacked: true,
      queries: { '{{code}}': rate('tassis_http_responses_total', 'code') },
    },
    {
      title: 'Commit latency',
      unit: 's',
      description: 'Every acceptance waits for a commit to tassis.',
      queries: {
        '{{store}} p50': quantile(0.5, 'tassis_commit_seconds', 'store'),
        '{{store}} p99': quantile(0.99, 'tassis_commit_seconds', 'store'),
      },
    },
    {
      title: 'Event loop delay',
      unit: 's',
      description: 'How long a request waits for its turn.',
      queries: {
        p50: quantile(0.5, 'tassis_event_loop_delay_seconds'),
        p99: quantile(0.99, 'tassis_event_loop_delay_seconds'),
      },
    },
  ],
  Delivery: [
    {
      title: 'Attempts by outcome',
      unit: 'ops',
      isStacked: true,
      queries: { '{{outcome}}': rate('tassis_delivery_attempts_total', 'outcome') },
    },
    {
      title: 'Sent by provider',
      unit: 'ops',
      isStacked: true,
      queries: { '{{provider}}': rate('tassis_delivery_attempts_total', 'provider', 'outcome="sent"') },
    },
    {
      title: 'Bounces and deferrals by category',
      unit: 'ops',
      isStacked: true,
      queries: {
        '{{outcome}}: {{category}}': rate('tassis_delivery_attempts_total', 'outcome, category', 'category!=""'),
      },
    },
    {
      title: 'Attempt duration, p95',
      unit: 's',
      queries: { '{{provider}}': quantile(0.95, 'tassis_delivery_attempt_seconds', 'provider') },
    },
    {
      title: 'Recipients waiting by provider',
      unit: 'short',
      isStacked: true,
      queries: { '{{provider}}': gauge('tassis_queue_recipients', 'provider') },
    },
    {
      title: 'Most overdue by provider',
      unit: 's',
      queries: { '{{provider}}': `max by (provider) (tassis_queue_oldest_due_seconds{${HERE}})` },
    },
    {
      title: 'In flight by provider',
      unit: 'short',
      isStacked: true,
      queries: { '{{provider}}': gauge('tassis_deliveries_in_flight', 'provider') },
    },
    {
      title: 'Suspended, slowed down, blamed',
      unit: 'short',
      description: 'Only providers of which there is something to say.',
      queries: {
        '{{provider}} suspended': `${gauge('tassis_provider_suspensions', 'provider')} > 0`,
        '{{provider}} rate': `min by (provider) (tassis_provider_rate_factor{${HERE}}) < 1`,
        '{{provider}}: {{category}}': `sum by (provider, category) (tassis_reputation_alerts{${HERE}}) > 0`,
      },
    },
    {
      title: 'Queues',
      unit: 'short',
      queries: { open: gauge('tassis_queue_lanes') },
    },
    { title: 'Events', unit: 'ops', isStacked: true, queries: { '{{type}}': rate('tassis_events_total', 'type') } },
  ],
  'Webhooks, incoming mail, submission': [
    {
      title: 'Webhook attempts',
      unit: 'ops',
      isStacked: true,
      queries: { '{{outcome}}': rate('tassis_webhook_attempts_total', 'outcome') },
    },
    {
      title: 'Webhook duration',
      unit: 's',
      queries: {
        p50: quantile(0.5, 'tassis_webhook_attempt_seconds'),
        p95: quantile(0.95, 'tassis_webhook_attempt_seconds'),
      },
    },
    {
      title: 'Webhooks that wait or are deactivated',
      unit: 'short',
      queries: {
        'deliveries waiting': gauge('tassis_webhook_deliveries_waiting'),
        deactivated: gauge('tassis_webhooks_deactivated'),
      },
    },
    {
      title: 'Incoming recipients by reply',
      unit: 'ops',
      isStacked: true,
      queries: { '{{code}}': rate('tassis_inbound_recipients_total', 'code') },
    },
    {
      title: 'Incoming messages',
      unit: 'ops',
      queries: {
        '{{outcome}}': rate('tassis_inbound_messages_total', 'outcome'),
        'submitted: {{outcome}}': rate('tassis_submission_messages_total', 'outcome'),
        'failed logins': rate('tassis_submission_failed_logins_total', 'instance'),
      },
    },
    {
      title: 'Sessions and unprocessed messages',
      unit: 'short',
      queries: {
        'incoming sessions': gauge('tassis_inbound_sessions'),
        'submission sessions': gauge('tassis_submission_sessions'),
        unprocessed: gauge('tassis_inbound_queue_messages'),
      },
    },
  ],
  'Cluster, if there is one': [
    {
      title: 'Leader',
      unit: 'short',
      description: 'The instance that leads is at 1.',
      queries: { '{{instance}}': `max by (instance) (tassis_cluster_leader{${HERE}})` },
    },
    {
      title: 'Standbys behind the log',
      unit: 's',
      queries: { '{{node}}': `max by (node) (tassis_cluster_lag_seconds{${HERE}})` },
    },
    {
      title: 'Nodes',
      unit: 'short',
      isStacked: true,
      description: 'As the node that reports most of them sees them.',
      queries: { '{{state}}': `max by (state) (tassis_cluster_nodes{${HERE}})` },
    },
    {
      title: 'Append to PostgreSQL',
      unit: 's',
      description: 'Every commit waits for one.',
      queries: {
        p50: quantile(0.5, 'tassis_cluster_append_seconds'),
        p99: quantile(0.99, 'tassis_cluster_append_seconds'),
      },
    },
    {
      title: 'Appended',
      unit: 'Bps',
      queries: { appended: `sum(rate(tassis_cluster_appended_bytes_total{${HERE}}${RATE}))` },
    },
    {
      title: 'Log in PostgreSQL',
      unit: 'bytes',
      queries: { log: `max(tassis_cluster_log_bytes{${HERE}})` },
    },
  ],
  Machine: [
    {
      title: 'Free disk',
      unit: 'bytes',
      queries: { free: gauge('tassis_disk_free_bytes'), 'refuses mail below': gauge('tassis_disk_reserve_bytes') },
    },
    {
      title: 'Database',
      unit: 'bytes',
      queries: { database: gauge('tassis_database_bytes'), 'write-ahead log': gauge('tassis_database_wal_bytes') },
    },
    {
      title: 'Memory',
      unit: 'bytes',
      queries: {
        resident: `sum(process_resident_memory_bytes{${HERE}, job="tassis"})`,
        'budget used': gauge('tassis_memory_budget_used_bytes'),
        budget: gauge('tassis_memory_budget_bytes'),
      },
    },
    {
      title: 'Processor',
      unit: 'percentunit',
      description: 'Of one core.',
      queries: { used: rate('process_cpu_seconds_total', 'instance', 'job="tassis"') },
    },
    {
      title: 'File descriptors',
      unit: 'short',
      queries: {
        open: `sum(process_open_fds{${HERE}, job="tassis"})`,
        limit: `sum(process_max_fds{${HERE}, job="tassis"})`,
      },
    },
    {
      title: 'Log lines, warnings and worse',
      unit: 'ops',
      queries: { '{{level}}': rate('tassis_log_lines_total', 'level', 'level=~"warn|error|fatal"') },
    },
    {
      title: 'Certificates',
      unit: 's',
      description: 'Time until they expire.',
      isStat: true,
      queries: { '{{use}}': `min by (use) (tassis_certificate_expiry_timestamp_seconds{${HERE}}) - time()` },
    },
    {
      title: 'Checks',
      unit: 'short',
      description: 'Findings that ask for something; see `tassis doctor`.',
      isStat: true,
      queries: {
        '{{check}}: {{status}}': `sum by (check, status) (tassis_check_findings{${HERE}, status=~"warning|failure"})`,
      },
    },
    {
      title: 'Version',
      unit: 'short',
      isStat: true,
      queries: { '{{version}} ({{commit}})': `count by (version, commit) (tassis_build_info{${HERE}})` },
    },
  ],
}

function toPanel(
  { title, unit, queries, isStacked, isStat, description }: Graph,
  id: number,
  gridPos: Panel['gridPos'],
): Panel {
  const custom: GraphFieldConfig = {
    drawStyle: GraphDrawStyle.Line,
    fillOpacity: isStacked ? 30 : 0,
    stacking: { mode: isStacked ? StackingMode.Normal : StackingMode.None, group: 'A' },
  }
  const legend: VizLegendOptions = {
    displayMode: LegendDisplayMode.List,
    placement: 'bottom',
    showLegend: true,
    calcs: [],
  }
  const tooltip: VizTooltipOptions = { mode: TooltipDisplayMode.Multi, sort: SortOrder.Descending }
  return {
    id,
    type: isStat ? 'stat' : 'timeseries',
    title,
    ...(description !== undefined && { description }),
    datasource: DATASOURCE,
    ...(gridPos && { gridPos }),
    fieldConfig: {
      ...defaultFieldConfigSource,
      defaults: { unit, min: 0, ...(!isStat && { custom: { ...custom } }) },
      overrides: [],
    },
    options: isStat
      ? { reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false }, colorMode: 'none', textMode: 'auto' }
      : { legend, tooltip },
    targets: Object.entries(queries).map(([legendFormat, expr], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  }
}

/** Six small panels or three large ones beside each other. */
function layOut(): (Panel | RowPanel)[] {
  const panels: (Panel | RowPanel)[] = []
  let y = 0
  for (const [title, graphs] of Object.entries(ROWS)) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y: y++, w: COLUMNS, h: 1 },
    })
    let x = 0
    let rowHeight = 0
    for (const graph of graphs) {
      const { w, h } = graph.isStat ? { w: 4, h: 4 } : { w: 8, h: 8 }
      if (x + w > COLUMNS) {
        x = 0
        y += rowHeight
        rowHeight = 0
      }
      panels.push(toPanel(graph, panels.length + 1, { x, y, w, h }))
      x += w
      rowHeight = Math.max(rowHeight, h)
    }
    y += rowHeight
  }
  return panels
}

const DASHBOARD: Dashboard = {
  uid: 'tassis',
  title: 'Tassis',
  description: 'Acceptance, delivery, webhooks, incoming mail and the machine. docs/metrics.md explains the metrics.',
  tags: ['tassis', 'email'],
  schemaVersion: SCHEMA_VERSION,
  version: 1,
  editable: true,
  refresh: '30s',
  time: { from: 'now-6h', to: 'now' },
  timezone: 'browser',
  templating: {
    list: [
      { type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus' },
      {
        type: 'query',
        name: 'instance',
        label: 'Instance',
        datasource: DATASOURCE,
        query: { query: 'label_values(tassis_build_info, instance)', refId: 'instance' },
        refresh: VariableRefresh.onDashboardLoad,
        includeAll: true,
        multi: true,
        current: { text: ['All'], value: ['$__all'] },
      },
    ],
  },
  panels: layOut(),
}

/** The text of the file. */
export const formatDashboard = (): string => `${JSON.stringify(DASHBOARD, null, 2)}\n`

/** The queries of all panels, with Grafana's variables. */
export const listQueries = (): string[] =>
  Object.values(ROWS).flatMap((graphs) => graphs.flatMap(({ queries }) => Object.values(queries)))

if (import.meta.main) await Bun.write(DASHBOARD_PATH, formatDashboard())
