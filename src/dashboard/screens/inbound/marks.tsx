/**
 * @module Small pieces that the screens of received mail share: states, links, the checks of a message (SPF, DKIM,
 * DMARC, ARC, reverse DNS), its attachments to download. Names and types of those are the sender's. And
 * deliveries to the webhook of a route, each with its response and a replay.
 */
import { Anchor, Code, Stack, Text } from '@mantine/core'
import type { InboundEmailAttachment, InboundEmailDelivery, InboundEmailSummary } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form.tsx'
import { formatBytes } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { AreaNavigation } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import type { State } from '../../parts/tone.ts'
import { INBOUND_STATES, NOT_FORWARDED, ROUTE_DELIVERY_STATES, SPAM_STATES } from './format.ts'
import { type Check, type CheckedMessage, listChecks, toProof, toVisible } from './proof.ts'

const renderState = (states: Readonly<Record<string, State>>, status: string) => (
  <StateLabel state={states[status] ?? { word: status, tone: 'neutral', title: status }} />
)

export const DeliveryStatus = ({ status }: { readonly status: string }) => renderState(ROUTE_DELIVERY_STATES, status)

interface EmailStatusProps {
  readonly email: Pick<InboundEmailSummary, 'authentication' | 'forward_refused' | 'from_address' | 'spam' | 'status'>
}

/** Only what is most wrong: spam, unreadable, not forwarded, a sender that failed a check; else what became of it. */
export function EmailStatus({ email }: EmailStatusProps) {
  if (email.spam && email.spam.verdict !== 'ham') return renderState(SPAM_STATES, email.spam.verdict)
  if (email.forward_refused && email.status !== 'failed') return <StateLabel state={NOT_FORWARDED} />
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
  column('Check', { width: '8rem' }, ({ name }) => name),
  column('Result', { width: '9rem', phone: 'aside' }, (check) => <StateLabel state={check} />),
  column('What it says', { phone: 'bare', isWrapped: true }, ({ explanation }) => explanation),
]

export function Checks({ message }: { readonly message: CheckedMessage }) {
  const checks = listChecks(message)
  if (checks.length === 0) return <Text size="sm">This message was not checked.</Text>
  return <DataTable label="Checks of the sender" columns={COLUMNS} rows={checks} toKey={({ name }) => name} />
}

type Row = Pick<InboundEmailAttachment, 'index' | 'filename' | 'content_type' | 'size'>

interface AttachmentsProps {
  readonly attachments: readonly Omit<Row, 'index'>[]
  /** Path in `/v1` of an attachment, by its position. */
  toUrl(index: number): string
}

export function Attachments({ attachments, toUrl }: AttachmentsProps) {
  if (attachments.length === 0) return <Text size="sm">It has none.</Text>
  const columns: readonly Column<Row>[] = [
    column('Name', {}, ({ filename, index }) => (
      // The server names the file; it is saved and never shown.
      <Anchor href={toUrl(index)} download size="sm">
        <bdi>{toVisible(filename ?? '') || `attachment ${index + 1}`}</bdi>
      </Anchor>
    )),
    column('Type', { width: '35%', phone: 'bare' }, ({ content_type: type }) => <bdi>{toVisible(type)}</bdi>),
    column('Size', { width: '7rem', isNumeric: true, phone: 'aside' }, ({ size }) => formatBytes(size)),
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

interface DeliveriesProps {
  readonly deliveries: readonly InboundEmailDelivery[]
  readonly hasEmails: boolean
}

/** A replay creates a new delivery and leaves the old one as it is. */
const useReplay = () =>
  useChange(
    ({ id, route_id }: Pick<InboundEmailDelivery, 'id' | 'route_id'>) => api.inboundRoutes.replayDelivery(route_id, id),
    'inboundEmails',
    'inboundRoutes',
  )

export function Deliveries({ deliveries, hasEmails }: DeliveriesProps) {
  const replay = useReplay()
  const columns: readonly Column<InboundEmailDelivery>[] = [
    column('Created', { width: '9rem' }, (delivery) => <Created delivery={delivery} isLink={hasEmails} />),
    column('Status', { width: '9rem', phone: 'aside' }, ({ status }) => <DeliveryStatus status={status} />),
    column('Tries', { width: '10rem' }, (delivery) => <Attempts delivery={delivery} />),
    column('Response', { phone: 'bare', isWrapped: true }, (delivery) => <Reply delivery={delivery} />),
    column('Replay', { width: '8rem', phone: 'bare' }, (delivery) => (
      <SmallAction
        size="compact-sm"
        needs="developer"
        loading={replay.isPending && replay.variables?.id === delivery.id}
        aria-label={`Send again: delivery of ${delivery.created_at.slice(0, 19)}`}
        onClick={() => replay.mutate(delivery)}
        label="Send again"
      />
    )),
  ]
  return (
    <Stack gap="xs">
      <DataTable label="Deliveries, newest first" columns={columns} rows={deliveries} />
      <div role="status">{replay.isSuccess && <Text size="sm">A new delivery was created; it is sent now.</Text>}</div>
      <FormError error={replay.error} />
    </Stack>
  )
}

function Created({ delivery, isLink }: { readonly delivery: InboundEmailDelivery; readonly isLink: boolean }) {
  const { created_at: at, inbound_email_id: email } = delivery
  if (!isLink || email === null) return <Time iso={at} />
  return <NameLink to="/inbound/$id" params={{ id: email }} name={<Time iso={at} />} />
}

const Attempts = ({ delivery: { attempts, next_attempt_at: next } }: { readonly delivery: InboundEmailDelivery }) => (
  <Text size="sm">
    {attempts}
    {next && <Time before="; next " iso={next} />}
  </Text>
)

const MAX_SHOWN_LENGTH = 300

/** The response is text from a server of others. */
function Reply({
  delivery: { status_code: code, duration_ms: ms, response, error },
}: {
  readonly delivery: InboundEmailDelivery
}) {
  return (
    <>
      <Text size="sm">
        {code !== null && <Code>{code}</Code>} {error !== null && <bdi>{error}</bdi>}{' '}
        {ms !== null && <span>({ms} ms)</span>}
        {code === null && error === null && ms === null && 'Not tried yet'}
      </Text>
      {response && (
        <Text size="sm" c="dimmed" title={response}>
          <bdi>{response.length > MAX_SHOWN_LENGTH ? `${response.slice(0, MAX_SHOWN_LENGTH)}…` : response}</bdi>
        </Text>
      )}
    </>
  )
}
