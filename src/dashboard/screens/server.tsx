/** @module The state of the whole service, for operators. */
import { Alert, Code, List, Stack, Text } from '@mantine/core'
import type { OperatorHealth } from '#client/operator-api.ts'
import { read } from '../api/client.ts'
import { type Figure, Figures } from '../parts/figures.tsx'
import { formatBytes, formatCount } from '../parts/format.ts'
import { Facts, Section } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import type { Tone } from '../parts/tone.ts'
import { DeliveryAlerts } from './server/alerts.tsx'
import { type DoctorFinding, describeOther, listBad, listOther, toWords } from './server/format.ts'
import { ServerPage } from './server/frame.tsx'
import { useOne } from './server/queries.ts'

export default function ServerScreen() {
  const query = useOne(read.operator.getHealth())
  return (
    <ServerPage title="Server" query={query}>
      {(health) => <Health health={health} />}
    </ServerPage>
  )
}

function Health({ health }: { readonly health: OperatorHealth }) {
  const { problems, warnings } = health
  return (
    <Stack gap="lg">
      <div>
        {problems.length === 0 && health.is_delivering ? (
          <StatusLabel tone="good">The service takes and delivers mail</StatusLabel>
        ) : (
          <StatusLabel tone="bad">
            {problems.length > 0 ? 'The service takes no mail now' : 'The service delivers no mail now'}
          </StatusLabel>
        )}
        {problems.length > 0 && (
          <List>
            {problems.map(({ field, message }) => (
              <List.Item key={field}>
                The {field} {message}.
              </List.Item>
            ))}
          </List>
        )}
      </div>
      <Checks warnings={warnings} />
      <DeliveryAlerts />
      <Figures figures={toFigures(health)} />
      <Section title="This server">
        <Facts
          facts={[
            ['Version', health.version],
            ['Running since', <Time key="time" iso={health.started_at} />],
            ['Host name', health.hostname],
            ['Public URL', health.public_url],
            ['Delivery', toDeliveryWords(health.delivery)],
            ['Mail is received', health.inbound_addr ?? 'Nowhere: TASSIS_INBOUND_ADDR is not set'],
            ['Mail is submitted', toSubmissionWords(health.submission)],
            ['Memory', formatBytes(health.memory_bytes)],
          ]}
        />
      </Section>
    </Stack>
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
    note: `${queue.in_flight.toLocaleString()} being delivered${queue.stalled > 0 ? `; ${queue.stalled.toLocaleString()} queues without progress: see the log` : ''}`,
  },
  { label: 'Received, not processed', target: { to: '/server/received' }, value: received },
  {
    label: 'Free on the disk',
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
    label: 'Webhook deliveries waiting',
    value: webhooks.waiting,
    note: `${webhooks.deactivated.toLocaleString()} webhooks deactivated by failures`,
  },
]

const MAX_SHOWN = 20

interface ChecksProps {
  /** Problems of the settings, shown until the checks have run, which find them too. */
  readonly warnings: readonly string[]
}

function Checks({ warnings }: ChecksProps) {
  const report = useOne(read.operator.getDoctor()).data
  if (!report?.checked_at)
    return warnings.map((warning) => (
      <Alert key={warning} color="yellow" title="A setting needs attention">
        {warning}
      </Alert>
    ))
  const bad = listBad(report.findings)
  const other = listOther(report.findings)
  const more = bad.length - MAX_SHOWN
  return (
    <Section title="Checks">
      <Stack gap="xs">
        <Text size="sm" c="dimmed">
          Made at <Time iso={report.checked_at} />, again every hour. <Code>tassis doctor</Code> on the server makes
          them now.
        </Text>
        {bad.length === 0 && <StatusLabel tone="good">All checks that could be made are well</StatusLabel>}
        {bad.slice(0, MAX_SHOWN).map((finding) => (
          <BadFinding key={`${finding.check} ${finding.subject}`} finding={finding} />
        ))}
        {more > 0 && <Text size="sm">And {formatCount(more, 'more problem')} (tassis doctor).</Text>}
        <details>
          <summary>{describeOther(other)}</summary>
          <List size="sm" listStyleType="none" mt="xs" spacing="xs">
            {other.map(({ check, subject, status, message }) => (
              <List.Item key={`${check} ${subject}`} style={{ overflowWrap: 'anywhere' }}>
                <StatusLabel tone={TONES[status]}>{toWords(check)}</StatusLabel> <bdi>{message}</bdi>
              </List.Item>
            ))}
          </List>
        </details>
      </Stack>
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
  <Alert
    color={status === 'failure' ? 'red' : 'yellow'}
    title={`${status === 'failure' ? 'Failed' : 'Warning'}: ${toWords(check)}`}
  >
    <Stack gap={2}>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        <bdi>{message}</bdi>
      </Text>
      {fix !== null && (
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          <Fix text={fix} />
        </Text>
      )}
    </Stack>
  </Alert>
)

/** What is between backquotes is for a shell or a file. */
const Fix = ({ text }: { readonly text: string }) =>
  text.split('`').map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
    index % 2 === 1 ? <Code key={index}>{part}</Code> : part,
  )
