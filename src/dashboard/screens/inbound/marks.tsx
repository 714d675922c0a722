/** @module Small pieces that the screens of received mail share. */
import type { InboundEmailSummary } from '#client/api.ts'
import { AreaNavigation } from '../../parts/page.tsx'
import { StateLabel, StatusLabel } from '../../parts/status.tsx'
import type { State } from '../../parts/tone.ts'
import { INBOUND_STATES, ROUTE_DELIVERY_STATES, SPAM_STATES } from './format.ts'
import { toProof } from './proof.ts'

const renderState = (states: Readonly<Record<string, State>>, status: string) => (
  <StateLabel state={states[status] ?? { word: status, tone: 'neutral', title: status }} />
)

const InboundStatus = ({ status }: { readonly status: string }) => renderState(INBOUND_STATES, status)
export const DeliveryStatus = ({ status }: { readonly status: string }) => renderState(ROUTE_DELIVERY_STATES, status)

interface EmailStatusProps {
  readonly email: Pick<InboundEmailSummary, 'authentication' | 'from_address' | 'spam' | 'status'>
}

/** Only what differs from mail that is as it should be: spam, else a sender that failed a check, else what became of it. */
export function EmailStatus({ email: { authentication, from_address: from, spam, status } }: EmailStatusProps) {
  if (spam && spam.verdict !== 'ham') return renderState(SPAM_STATES, spam.verdict)
  const { tone, sentence } = toProof({ authentication, from })
  if (status === 'failed' || (tone !== 'bad' && tone !== 'warning')) return <InboundStatus status={status} />
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
