/** @module The state of the whole service, for operators. */
import { Code, List, Text } from '@mantine/core'
import type { OperatorHealth } from '#client/operator-api.ts'
import { read } from '../api/client.ts'
import { type Figure, Figures } from '../parts/figures.tsx'
import { formatBytes, formatCount } from '../parts/format.ts'
import { Facts, Section } from '../parts/page.tsx'
import { Notice, StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import type { Tone } from '../parts/tone.ts'
import { DeliveryAlerts } from './server/alerts.tsx'
import { Cluster } from './server/cluster.tsx'
import { type DoctorFinding, describeOther, listBad, listOther, toWords } from './server/format.ts'
import { ServerPage, useOne } from './server/frame.tsx'

export default function ServerScreen() {
  const query = useOne(read.operator.getHealth())
  const cluster = useOne(read.operator.getCluster()).data
  return (
    <ServerPage title="Server" query={query}>
      {(health) => (
        <>
          <State health={health} />
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

function State({ health: { problems, is_delivering: isDelivering } }: { readonly health: OperatorHealth }) {
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
