/** @module Small pieces that the screens of received mail share. */
import type { InboundEmailSummary } from '#client/api.ts'
import { AreaNavigation } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import type { State } from '../../parts/tone.ts'
import { INBOUND_STATES, NOT_FORWARDED, ROUTE_DELIVERY_STATES, SPAM_STATES } from './format.ts'
import { toProof } from './proof.ts'

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
