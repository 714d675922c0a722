/**
 * @module `tassis cluster`: the nodes of a cluster, its log and its last failover, and `tassis cluster step-down`.
 * Speaks to PostgreSQL alone, so it works on each node, whether a service runs there or not.
 */
import type { ClusterNode, ClusterStatus } from '#platform/replication/cluster-status.ts'
import type { ReplicationLog } from '#platform/replication/log.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { findStepDownObstacle, readClusterStatus } from '../cluster/status.ts'
import { listProblems, loadLog } from '../doctor/checks/cluster.ts'
import { loadConfig } from '../settings.ts'
import type { Command } from './command.ts'
import { CommandError } from './options.ts'
import {
  formatCount,
  formatFromNow,
  formatPage,
  formatSize,
  formatUtcFromNow,
  type JsonOption,
  joinParagraphs,
  printResult,
} from './output.ts'

const ALONE =
  'This service runs alone: TASSIS_REPLICATE is not set. docs/scaling.md says how to add a standby, which takes over when this machine fails.'

export function addClusterCommands(program: Command): void {
  const cluster = program
    .add('cluster', 'show the nodes of the cluster, which one leads, the log in PostgreSQL and the last failover')
    .action(async (options: JsonOption) => {
      const { config } = loadConfig()
      const data = config.replicate === '' ? null : await withLog(config, readStatus)
      printResult(options, { data }, () => (data ? formatStatus(data) : ALONE))
    })
  cluster
    .add('step-down', 'have the leader stop cleanly and a standby take over, as before an upgrade of the leader')
    .option('--to <node>', 'the node that shall lead; default: the standby that follows closest')
    .action(async (_, command: Command) => {
      const { to, ...options } = command.optsWithGlobals<JsonOption & { readonly to?: string }>()
      const data = await withLog(loadConfig().config, (log) => stepDown(log, to))
      const text = `${data.leader} leads now, after ${(data.duration_ms / seconds(1)).toFixed(1)} s; ${data.from} follows it when it has started again.`
      printResult(options, { data }, () => text)
    })
}

async function withLog<T>({ replicate }: Config, use: (log: ReplicationLog) => Promise<T>): Promise<T> {
  if (replicate === '') throw new CommandError(ALONE, 'no_cluster')
  const [{ Postgres, PostgresUnreachableError }, { ReplicationLog }] = await loadLog()
  const log = new ReplicationLog(new Postgres(replicate))
  try {
    if (await log.hasTables()) return await use(log)
    throw new CommandError(
      'The database of TASSIS_REPLICATE has no cluster yet; the first node that starts with it sets it up.',
      'no_cluster',
    )
  } catch (error) {
    if (!(error instanceof PostgresUnreachableError)) throw error
    throw new CommandError(
      `${error.message}. Nodes accept and send nothing meanwhile, and go on by themselves.`,
      'postgres_unreachable',
    )
  } finally {
    await log.postgres.close()
  }
}

const readStatus = ({ postgres }: ReplicationLog): Promise<ClusterStatus> => postgres.use(readClusterStatus)

const TIMEOUT_MS = seconds(30)
const INTERVAL_MS = 100

/** Resolves when another node leads. Takes the request back when none does in time. */
async function stepDown(log: ReplicationLog, to: string | undefined) {
  const before = await readStatus(log)
  const obstacle = findStepDownObstacle(before, to)
  if (obstacle) throw new CommandError(obstacle.message, obstacle.code)
  const startedAtMs = systemClock.monotonicMs()
  await log.requestStepDown(to ?? '')
  const from = before.leader
  for (;;) {
    const { leader, epoch } = await readStatus(log)
    const duration_ms = Math.round(systemClock.monotonicMs() - startedAtMs)
    if (leader === from && epoch > before.epoch)
      throw new CommandError(`${from} leads again, because no other node took over; its log says why.`, 'led_again')
    if (leader !== null && leader !== from) return { from, leader, epoch, duration_ms }
    if (duration_ms > TIMEOUT_MS) {
      await log.withdrawStepDown()
      throw new CommandError(
        `No other node leads after ${TIMEOUT_MS / seconds(1)} s, so the request was taken back; the log of ${from} says why.`,
        'step_down_timeout',
      )
    }
    await systemClock.sleep(INTERVAL_MS)
  }
}

const REASONS = { silence: 'it was silent', stop: 'it was stopped', step_down: 'it was asked to step down' } as const

function formatStatus(status: ClusterStatus): string {
  const { leader, leader_since: since, last_failover: failover, log, postgres, nodes } = status
  const { synchronous_standbys: count } = postgres
  const standbys = count === null ? 'unknown synchronous standbys' : formatCount(count, 'synchronous standby')
  const facts = [
    ['Leader', leader === null ? 'NONE' : `${leader}${since === null ? '' : `, since ${formatUtcFromNow(since)}`}`],
    [
      'Last failover',
      failover
        ? `${formatUtcFromNow(failover.at)}, from ${failover.from} to ${failover.to}: ${REASONS[failover.reason]}`
        : 'none',
    ],
    [
      'Log',
      `${log.rows.toLocaleString('en')} rows, ${formatSize(log.bytes)}; newest ${status.seq}, epoch ${status.epoch}`,
    ],
    ['PostgreSQL', `${postgres.version}, commits ${postgres.synchronous_commit}, ${standbys}`],
  ].map(([label, text]) => `${`${label}:`.padEnd(15)}${text}`)
  const cells = {
    state: ({ state }: ClusterNode) => (state === 'lost' ? 'LOST' : state),
    behind: ({ role, behind, lag_ms: ms }: ClusterNode) =>
      role === 'leader'
        ? ''
        : behind === 0
          ? 'nothing'
          : `${formatCount(behind, 'row')}, ${(ms / seconds(1)).toFixed(1)} s`,
    seen: ({ seen_at: at }: ClusterNode) => formatFromNow(at),
    sends_from: ({ outbound_ips: ips }: ClusterNode) => ips,
  }
  return joinParagraphs(
    facts.join('\n'),
    formatPage({ data: nodes }, 'name role state behind seen version hostname sends_from', cells),
    listProblems(status)
      .map(({ status: level, message, fix }) => `${level.toUpperCase()}: ${message} ${fix}`)
      .join('\n'),
  )
}
