/**
 * @module Small pieces that the screens of received mail share: states, links, the checks of a message (SPF, DKIM,
 * DMARC, ARC, reverse DNS), its attachments to download. Names and types of those are the sender's.
 */
import { Anchor, Text } from '@mantine/core'
import type { InboundEmailSummary } from '#client/api.ts'
import { formatBytes } from '../../parts/format.ts'
import { AreaNavigation } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import type { State } from '../../parts/tone.ts'
import { INBOUND_STATES, NOT_FORWARDED, ROUTE_DELIVERY_STATES, SPAM_STATES } from './format.ts'
import { type Check, type CheckedMessage, listChecks, toProof } from './proof.ts'
import { toVisible } from './visible.ts'

const renderState = (states: Readonly<Record<string, State>>, status: string) => (
  <StateLabel state={states[status] ?? { word: status, tone: 'neutral', title: status }} />
)

export const DeliveryStatus = ({ status }: { readonly status: string }) => renderState(ROUTE_DELIVERY_STATES, status)

interface EmailStatusProps {
  readonly email: Pick<InboundEmailSummary, 'authentication' | 'forward_refused' | 'from_address' | 'spam' | 'status'>
}

/** Only what differs from mail that is as it should be: spam, a refused forward, a failed check, what became of it. */
export function EmailStatus({ email }: EmailStatusProps) {
  if (email.spam && email.spam.verdict !== 'ham') return renderState(SPAM_STATES, email.spam.verdict)
  if (email.forward_refused) return <StateLabel state={NOT_FORWARDED} />
  const { tone, sentence } = toProof({ authentication: email.authentication, from: email.from_address })
  if (email.status === 'failed' || !['bad', 'warning'].includes(tone)) return renderState(INBOUND_STATES, email.status)
  return (
    <StatusLabel tone={tone} title={sentence}>
      Sender not proven
    </StatusLabel>
  )
}

const LINKS = [
  { to: '/inbound', label: 'Received mail' },
  { to: '/inbound/routes', label: 'Routes' },
  { to: '/inbound/mailboxes', label: 'Mailboxes' },
] as const

export const InboundNavigation = () => <AreaNavigation label="Inbound" links={LINKS} />

const COLUMNS: readonly Column<Check>[] = [
  { header: 'Check', width: '8rem', cell: ({ name }) => name },
  { header: 'Result', width: '9rem', phone: 'aside', cell: (check) => <StateLabel state={check} /> },
  { header: 'What it says', phone: 'bare', isWrapped: true, cell: ({ explanation }) => explanation },
]

export function Checks({ message }: { readonly message: CheckedMessage }) {
  const checks = listChecks(message)
  if (checks.length === 0) return <Text size="sm">This message was not checked.</Text>
  return <DataTable label="Checks of the sender" columns={COLUMNS} rows={checks} toKey={({ name }) => name} />
}

interface ShownAttachment {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
}

interface AttachmentsProps {
  readonly attachments: readonly ShownAttachment[]
  /** Path in `/v1` of an attachment, by its position. */
  toUrl(index: number): string
}

interface Row extends ShownAttachment {
  readonly index: number
}

export function Attachments({ attachments, toUrl }: AttachmentsProps) {
  if (attachments.length === 0) return <Text size="sm">It has none.</Text>
  const columns: readonly Column<Row>[] = [
    {
      header: 'Name',
      cell: ({ filename, index }) => (
        // The server names the file; it is saved and never shown.
        <Anchor href={toUrl(index)} download size="sm">
          <bdi>{toVisible(filename ?? '') || `attachment ${index + 1}`}</bdi>
        </Anchor>
      ),
    },
    { header: 'Type', width: '35%', phone: 'bare', cell: ({ content_type: type }) => <bdi>{toVisible(type)}</bdi> },
    { header: 'Size', width: '7rem', isNumeric: true, phone: 'aside', cell: ({ size }) => formatBytes(size) },
  ]
  return (
    <>
      <DataTable
        label="Attachments"
        columns={columns}
        rows={attachments.map((attachment, index) => ({ ...attachment, index }))}
        toKey={({ index }) => String(index)}
      />
      <Text size="xs" c="dimmed">
        Named by the sender, and not checked for viruses.
      </Text>
    </>
  )
}
