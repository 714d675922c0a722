/** @module Small pieces that the screens of received mail share. */
import { AreaNavigation } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { INBOUND_STATES, ROUTE_DELIVERY_STATES, type State } from './format.ts'

const renderState = (states: Readonly<Record<string, State>>, status: string) => {
  const { word, tone, title } = states[status] ?? { word: status, tone: 'neutral', title: status }
  return (
    <StatusLabel tone={tone} title={title}>
      {word}
    </StatusLabel>
  )
}

export const InboundStatus = ({ status }: { readonly status: string }) => renderState(INBOUND_STATES, status)
export const DeliveryStatus = ({ status }: { readonly status: string }) => renderState(ROUTE_DELIVERY_STATES, status)

const LINKS = [
  { to: '/inbound', label: 'Received mail' },
  { to: '/inbound/routes', label: 'Routes' },
  { to: '/inbound/mailboxes', label: 'Mailboxes' },
] as const

export const InboundNavigation = () => <AreaNavigation label="Inbound" links={LINKS} />
