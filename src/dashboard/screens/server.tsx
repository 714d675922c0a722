/**
 * @module The state of the whole service, for operators; and the cluster: which node leads, what the others do, the log; has
 * the leader give way. Nothing of that without one.
 */
import { Code, List, Text } from '@mantine/core'
import type { OperatorCluster, OperatorHealth } from '#client/operator-api.ts'
import { api, read } from '../api/client.ts'
import { ConfirmButton } from '../parts/dialog.tsx'
import { type Figure, Figures } from '../parts/figures.tsx'
import { formatBytes, formatCount, formatDuration, toOptions } from '../parts/format.ts'
import { Facts, Section } from '../parts/page.tsx'
import { Notice, StateLabel, StatusLabel } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import type { State, Tone } from '../parts/tone.ts'
import { type DoctorFinding, describeOther, listBad, listOther, toWords } from './server/format.ts'
import { ServerPage, useOne } from './server/frame.tsx'
import { DeliveryAlerts } from './server/providers.tsx'

export default function ServerScreen() {
  const query = useOne(read.operator.getHealth())
  const cluster = useOne(read.operator.getCluster()).data
  return (
    <ServerPage title="Server" query={query}>
      {(health) => (
        <>
          <HealthNotice health={health} />
          <DeliveryAlerts />
          <Figures figures={toFigures(health)} />
          <Checks />
          {cluster && <Cluster cluster={cluster} />}
          <Section title="This server">
            <Facts
              facts={[
                ['Version', health.version],
                ['Running since', <Time key="time" iso={health.started_at} isRelative />],
                ['Host name', health.hostname],
                ['Public URL', health.public_url],
                ['Delivery', toDeliveryWords(health.delivery)],
                ['Mail is received', health.inbound_addr ?? 'Nowhere: TASSIS_INBOUND_ADDR is not set'],
                ['Mail is submitted', toSubmissionWords(health.submission)],
                ['Memory', formatBytes(health.memory_bytes)],
                [
                  'Standby',
                  cluster === null && (
                    <>
                      None. <Code>docs/scaling.md</Code> says how another machine takes over.
                    </>
                  ),
                ],
              ]}
            />
          </Section>
        </>
      )}
    </ServerPage>
  )
}

function HealthNotice({ health: { problems, is_delivering: isDelivering } }: { readonly health: OperatorHealth }) {
  if (problems.length === 0 && isDelivering) return <Notice tone="good" title="The service takes and delivers mail" />
  return (
    <Notice
      tone="bad"
      title={problems.length > 0 ? 'The service takes no mail now' : 'The service delivers no mail now'}
    >
      {problems.map(({ field, message }) => (
        <div key={field}>
          The {field} {message}.
        </div>
      ))}
    </Notice>
  )
}

function toSubmissionWords(submission: OperatorHealth['submission']): string {
  if (!submission) return 'Nowhere: TASSIS_SUBMISSION_ADDR is not set'
  const { addrs, sessions, accepted, deferred, rejected, failed_logins } = submission
  const counts = [
    `${sessions.toLocaleString()} sessions`,
    `${accepted.toLocaleString()} accepted`,
    `${deferred.toLocaleString()} deferred`,
    `${rejected.toLocaleString()} rejected`,
    `${failed_logins.toLocaleString()} failed logins`,
  ]
  return `${addrs.join(', ')}: ${counts.join(', ')} since the start`
}

const DELIVERY_WORDS: Readonly<Record<string, string>> = {
  direct: 'To the mail hosts of the recipients',
  relay: 'Through another mail server',
  capture: 'Nowhere: all mail is captured',
}
const toDeliveryWords = (mode: string): string => DELIVERY_WORDS[mode] ?? mode

const toFigures = ({ queue, received, disk, webhooks, accounts }: OperatorHealth): readonly Figure[] => [
  {
    label: 'Waiting for delivery',
    target: { to: '/server/queue' },
    value: queue.waiting,
    note: `${queue.in_flight.toLocaleString()} in delivery`,
  },
  { label: 'Received, waiting', target: { to: '/server/received' }, value: received, note: 'not processed yet' },
  {
    label: 'Free disk',
    target: { to: '/server/disk' },
    value: formatBytes(disk.free_bytes),
    note: `of ${formatBytes(disk.size_bytes)}; mail is refused below ${formatBytes(disk.wanted_free_bytes)}`,
  },
  {
    label: 'Accounts',
    target: { to: '/server/accounts' },
    value: accounts.total,
    note: `${accounts.paused.toLocaleString()} paused`,
  },
  {
    label: 'Webhooks, waiting',
    value: webhooks.waiting,
    note: `${formatCount(webhooks.deactivated, 'webhook')} deactivated by failures`,
  },
]

const MAX_SHOWN = 20

function Checks() {
  const report = useOne(read.operator.getDoctor()).data
  if (!report?.checked_at) return null
  const bad = listBad(report.findings)
  const other = listOther(report.findings)
  const more = bad.length - MAX_SHOWN
  return (
    <Section
      title="Checks"
      description={
        <>
          Made <Time iso={report.checked_at} />, every hour. <Code>tassis doctor</Code> makes them now.
        </>
      }
    >
      {bad.length === 0 && <StatusLabel tone="good">All is well</StatusLabel>}
      {bad.slice(0, MAX_SHOWN).map((finding) => (
        <BadFinding key={`${finding.check} ${finding.subject}`} finding={finding} />
      ))}
      {more > 0 && <Text>And {formatCount(more, 'more problem')} (tassis doctor).</Text>}
      <details>
        <summary>{describeOther(other)}</summary>
        <List listStyleType="none" mt="xs" spacing="xs">
          {other.map(({ check, subject, status, message }) => (
            <List.Item key={`${check} ${subject}`} style={{ overflowWrap: 'anywhere' }}>
              <StatusLabel tone={TONES[status]}>{toWords(check)}</StatusLabel> <bdi>{message}</bdi>
            </List.Item>
          ))}
        </List>
      </details>
    </Section>
  )
}

const TONES: Readonly<Record<DoctorFinding['status'], Tone>> = {
  ok: 'good',
  warning: 'warning',
  failure: 'bad',
  skipped: 'neutral',
}

const BadFinding = ({ finding: { check, status, message, fix } }: { readonly finding: DoctorFinding }) => (
  <Notice
    tone={TONES[status]}
    title={`${status === 'failure' ? 'Failed' : 'Warning'}: ${toWords(check)}`}
    isUrgent={status === 'failure'}
  >
    <bdi>{message}</bdi>
    {fix !== null && (
      <div>
        <Fix text={fix} />
      </div>
    )}
  </Notice>
)

/** What is between backquotes is for a shell or a file. */
const Fix = ({ text }: { readonly text: string }) =>
  text.split('`').map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
    index % 2 === 1 ? <Code key={index}>{part}</Code> : part,
  )

type Node = OperatorCluster['nodes'][number]

const NODE_STATES: Readonly<Record<Node['state'], State>> = {
  leading: { tone: 'good', word: 'Leads' },
  following: { tone: 'good', word: 'Follows' },
  copying: { tone: 'active', word: 'Takes a snapshot' },
  lost: { tone: 'bad', word: 'Lost' },
}

const NODE_COLUMNS: readonly Column<Node>[] = [
  column('Node', {}, ({ name }) => <bdi>{name}</bdi>),
  column('Status', { width: '10rem' }, ({ state }) => <StateLabel state={NODE_STATES[state]} />),
  column('Behind', { width: '11rem', isNumeric: true }, ({ role, behind, lag_ms: ms }) =>
    role === 'leader' ? '–' : behind === 0 ? 'Nothing' : `${formatCount(behind, 'row')}, ${formatDuration(ms)}`,
  ),
  column('Seen', { width: '9rem', isNumeric: true }, ({ seen_at: at }) => <Time iso={at} hasSeconds />),
  column('Version', { width: '7rem' }, ({ version }) => <bdi>{version}</bdi>),
  column('Host name', { phone: 'none' }, ({ hostname }) => <bdi>{hostname}</bdi>),
]

function Cluster({ cluster }: { readonly cluster: OperatorCluster }) {
  const { leader, leader_since: since, last_failover: failover, log, postgres, nodes } = cluster
  const following = nodes.filter(({ state }) => state === 'following').map(({ name }) => name)
  const standbys = postgres.synchronous_standbys
  return (
    <Section title="Cluster" action={<StepDown leader={leader} following={following} />}>
      {following.length === 0 && (
        <Notice tone="warning" title="No standby follows">
          If this node fails, mail stops until it is back.
        </Notice>
      )}
      {postgres.problem !== null && (
        <Notice tone="bad" title="PostgreSQL can lose commits">
          {postgres.problem}
        </Notice>
      )}
      <DataTable label="Nodes" columns={NODE_COLUMNS} rows={nodes} isWide toKey={({ name }) => name} />
      <Facts
        facts={[
          ['Leads since', since !== null && <Time key="since" iso={since} isRelative />],
          [
            'Last failover',
            failover ? (
              <>
                <Time iso={failover.at} />, from <bdi>{failover.from}</bdi> to <bdi>{failover.to}</bdi>:{' '}
                {REASONS[failover.reason]}
              </>
            ) : (
              'None'
            ),
          ],
          ['Log', `${formatCount(log.rows, 'row')}, ${formatBytes(log.bytes)} in PostgreSQL`],
          [
            'PostgreSQL',
            `${postgres.version}, ${standbys ?? 'unknown'} synchronous ${standbys === 1 ? 'standby' : 'standbys'}`,
          ],
        ]}
      />
    </Section>
  )
}

const REASONS = { silence: 'it was silent', stop: 'it was stopped', step_down: 'it was asked to' } as const

interface StepDownProps {
  readonly leader: string | null
  readonly following: readonly string[]
}

const StepDown = ({ leader, following }: StepDownProps) => (
  <ConfirmButton
    label="Step down"
    title="Have another node lead?"
    isDangerous={false}
    reason={following.length === 0 ? 'No standby follows.' : undefined}
    done="The node steps down; another one leads in a moment."
    fields={
      following.length > 1
        ? [{ name: 'to', label: 'New leader', kind: 'choice', options: toOptions(following, String, 'The closest') }]
        : []
    }
    refreshes={[['operator', 'getCluster']]}
    run={(body: { to?: string }) => api.operator.stepDownCluster(body)}
  >
    <Text>
      <bdi>{leader}</bdi> stops, {following.length === 1 ? <bdi>{following[0]}</bdi> : 'a standby'} takes over, and{' '}
      <bdi>{leader}</bdi> then follows it. Requests and mail get an answer to try again for about two seconds; nothing
      is lost or sent twice.
    </Text>
  </ConfirmButton>
)
