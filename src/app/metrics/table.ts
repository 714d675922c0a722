/**
 * @module All metrics with their help texts, as in docs/metrics.md. Those that end in `_total` are counters. Reads those of
 * a cluster: of the leader beside all others, of a standby alone.
 */
import type { RunningInbound } from '#features/receiving/inbound/start.ts'
import { type ClusterStatus, NODE_STATES } from '#platform/replication/cluster-status.ts'
import { seconds } from '#platform/units.ts'
import type { OpenedApp } from '../create.ts'
import type { ServiceState } from '../status-routes.ts'

/** Read at each scrape. */
export const READ = {
  process_cpu_seconds_total: 'CPU time of the process, user and system.',
  process_resident_memory_bytes: 'Resident memory of the process.',
  process_start_time_seconds: 'When the process started, in seconds since the Unix epoch.',
  process_max_fds: 'Maximum number of open file descriptors.',
  process_open_fds: 'Open file descriptors.',
  tassis_build_info: 'Always 1; version and commit of the program are in the labels.',
  tassis_ready: '1 when the service can take work, as /readyz reports it, else 0.',
  tassis_disk_size_bytes: 'Size of the file system of the data directory.',
  tassis_disk_reserve_bytes: 'Free space below which new mail is refused (TASSIS_MIN_FREE_DISK).',
  tassis_disk_free_bytes: 'Free space on the file system of the data directory, for an unprivileged process.',
  tassis_database_wal_bytes: 'Size of the write-ahead log of the main database.',
  tassis_database_bytes: 'Size of the main database, without mail contents.',
  tassis_memory_budget_bytes: 'Memory that request bodies and messages in flight may use (TASSIS_MEMORY_BUDGET).',
  tassis_memory_budget_used_bytes: 'Memory that request bodies and messages in flight use now.',
  tassis_certificate_expiry_timestamp_seconds:
    'When the first certificate of a use expires, in seconds since the Unix epoch.',
  tassis_check_findings:
    'Findings of the latest run of the hourly checks, by check and status: ok, warning, failure or skipped.',
  tassis_queue_lanes: 'Queues with open mail: one for each account, domain and priority.',
  tassis_queue_recipients:
    'Recipients whose mail waits, is scheduled or is in flight, by provider; unknown: not routed since the start.',
  tassis_queue_oldest_due_seconds: 'How long the most overdue recipient has been due, by provider; 0: none is overdue.',
  tassis_deliveries_in_flight: 'Messages being delivered now, by provider.',
  tassis_provider_rate_factor:
    'Fraction of the limits in use, by provider: the lowest of all our addresses; 1: not slowed down.',
  tassis_provider_suspensions:
    'Our outgoing addresses from which nothing is sent to the provider now, because it rejected our mail.',
  tassis_reputation_alerts:
    'Kinds of replies of the last day that reject mail because of our IP or set-up, by provider and category.',
  tassis_report_alerts:
    'What DMARC and TLS reports of the last week show to be bad, by cause: tls, dkim, broken, foreign or service.',
  tassis_webhooks_deactivated: 'Webhooks that consecutive failures deactivated.',
  tassis_webhook_deliveries_waiting: 'Webhook deliveries that wait for another attempt.',
  tassis_inbound_queue_oldest_seconds:
    'Age of the oldest incoming message that is accepted and not processed yet; 0: there is none.',
  tassis_inbound_sessions: 'Open SMTP sessions of incoming mail, up to 10 seconds ago.',
  tassis_inbound_queue_messages: 'Incoming messages that are accepted and not processed yet.',
  tassis_submission_failed_logins_total: 'Failed logins of SMTP submission.',
  tassis_submission_sessions: 'Open SMTP sessions of submission, up to 10 seconds ago.',
  tassis_submission_messages_total:
    'Messages submitted by SMTP, by outcome: accepted, deferred (4xx) or rejected (5xx).',
  tassis_cluster_leader: '1 when this node leads the cluster, else 0.',
  tassis_cluster_epoch: 'Number that rises with each change of the leader.',
  tassis_cluster_sequence: 'Position of the newest row of the log of the cluster.',
  tassis_cluster_heartbeat_age_seconds: 'How long ago the leader was last heard of.',
  tassis_cluster_nodes: 'Nodes of the cluster, by state: leading, following, copying (a snapshot) or lost.',
  tassis_cluster_lag_seconds: 'How far each standby is behind the log, by node; of a lost one at least its silence.',
  tassis_cluster_log_rows: 'Rows of the log of the cluster in PostgreSQL.',
  tassis_cluster_log_bytes: 'Size of the log of the cluster on the disk of PostgreSQL.',
  tassis_cluster_postgres_keeps_commits: '1 when the settings of PostgreSQL keep every commit, 0 when it can lose one.',
  tassis_cluster_last_failover_timestamp_seconds:
    'When the leader last changed, in seconds since the Unix epoch, by reason: silence, stop or step_down.',
} as const

/** Count themselves, from the start of the process. */
export const COUNTED = {
  tassis_emails_accepted_total:
    'Emails accepted and stored on disk, by kind: single, broadcast, or sandbox (captured, never sent).',
  tassis_recipients_accepted_total: 'Recipients of the accepted emails, by the same kinds.',
  tassis_events_total: 'Events of all accounts, by type as in the API.',
  tassis_delivery_attempts_total:
    'Attempts to deliver to a recipient, by provider, outcome, and category of the bounce or deferral.',
  tassis_delivery_attempt_seconds:
    'Duration of an attempt, from its start in a Worker (composing, signing, connecting) to the reply.',
  tassis_commit_seconds:
    'Duration of a group commit, from its first write to the end of its sync to disk, by database.',
  tassis_commit_writes_total: 'Writes in the group commits, by database.',
  tassis_http_responses_total: 'Responses of the HTTP API and its pages, by status code.',
  tassis_webhook_attempts_total:
    'Attempts to call webhooks, by outcome: delivered, transient (retried later) or permanent (rejected).',
  tassis_webhook_attempt_seconds: 'Duration of an attempt to call a webhook.',
  tassis_inbound_recipients_total:
    'Recipients of incoming mail (RCPT), by code of the reply: 250 or that of the rejection.',
  tassis_inbound_messages_total:
    'Incoming messages, by outcome: accepted and stored on disk, or deferred because storing failed.',
  tassis_rspamd_scans_total:
    'Messages about which the rspamd of TASSIS_RSPAMD_URL was asked, by outcome: answered, failed or unasked (it would have waited too long).',
  tassis_rspamd_scan_seconds: 'Duration of such a request.',
  tassis_log_lines_total: 'Lines of the log, by level.',
  tassis_cluster_append_seconds: 'Duration of an append to the log of the cluster, until PostgreSQL has stored it.',
  tassis_cluster_appended_bytes_total: 'Bytes appended to the log of the cluster.',
  tassis_event_loop_delay_seconds:
    'How late timers of the main thread run, sampled 20 times a second: how long a request waits for its turn.',
} as const

export interface MetricSources extends ServiceState {
  readonly opened: OpenedApp
  /** Undefined until it has started. */
  readonly inbound: () => RunningInbound | undefined
}

export type LabelledValue = readonly [labels: Readonly<Record<string, string>>, value: number]

/** Values by name; a metric without labels has one. */
export type Readings = Readonly<Partial<Record<keyof typeof READ, number | readonly LabelledValue[]>>>

/** Prepares the readings of a part of the service; the function that it returns makes them at each scrape. */
export type Reader = (sources: MetricSources) => () => Readings | Promise<Readings>

/** The text format of Prometheus, in which label values are escaped as in JSON. */
export function formatReadings(readings: Readings): string {
  const lines = Object.entries(readings).flatMap(([name, values]) => [
    `# HELP ${name} ${READ[name as keyof typeof READ]}`,
    `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}`,
    ...(typeof values === 'number' ? [[{}, values] as const] : values).map(([labels, value]) => {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`)
      return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
    }),
  ])
  return lines.map((line) => `${line}\n`).join('')
}

/** The number of items with the same labels. */
export function countBy<T>(
  items: readonly T[],
  toLabels: (item: T) => Readonly<Record<string, string>>,
): LabelledValue[] {
  const groups = Map.groupBy(items.map(toLabels), (labels) => Object.values(labels).join('\n'))
  return [...groups.values()].map((group) => [group[0] ?? {}, group.length])
}

export const readCluster: Reader =
  ({ opened: { app } }) =>
  () =>
    app.cluster ? readClusterMetrics(app.config.node, app.cluster.status()) : {}

/** @param node the name of this one. @param status undefined while PostgreSQL is not reached: nobody can lead then */
export function readClusterMetrics(node: string, status: ClusterStatus | undefined): Readings {
  if (!status) return { tassis_cluster_leader: 0 }
  const { nodes, last_failover: failover } = status
  return {
    tassis_cluster_leader: status.leader === node ? 1 : 0,
    tassis_cluster_epoch: status.epoch,
    tassis_cluster_sequence: status.seq,
    tassis_cluster_heartbeat_age_seconds: status.heartbeat_age_ms / seconds(1),
    tassis_cluster_nodes: NODE_STATES.map((state) => [{ state }, nodes.filter((each) => each.state === state).length]),
    tassis_cluster_lag_seconds: nodes
      .filter(({ role }) => role === 'standby')
      .map(({ name, lag_ms: ms }) => [{ node: name }, ms / seconds(1)]),
    tassis_cluster_log_rows: status.log.rows,
    tassis_cluster_log_bytes: status.log.bytes,
    tassis_cluster_postgres_keeps_commits: status.postgres.problem === null ? 1 : 0,
    ...(failover && {
      tassis_cluster_last_failover_timestamp_seconds: [
        [{ reason: failover.reason }, Date.parse(failover.at) / seconds(1)],
      ],
    }),
  }
}
