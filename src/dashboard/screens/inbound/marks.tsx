/** @module Small pieces that the screens of received mail share. */
import { AreaNavigation } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Tone } from '../../parts/tone.ts'

interface State {
  readonly word: string
  readonly tone: Tone
  readonly title: string
}

const INBOUND_STATES: Readonly<Record<string, State>> = {
  received: { word: 'Stored', tone: 'good', title: 'It is stored; no webhook has accepted it.' },
  delivered: { word: 'Passed on', tone: 'good', title: 'The webhook of its route accepted it.' },
  no_route: { word: 'No route', tone: 'warning', title: 'No route matches its address.' },
  failed: { word: 'Unreadable', tone: 'bad', title: 'It could not be parsed.' },
}

const ROUTE_DELIVERY_STATES: Readonly<Record<string, State>> = {
  pending: { word: 'Waiting', tone: 'waiting', title: 'Another attempt follows.' },
  delivered: { word: 'Accepted', tone: 'good', title: 'The response was a 2xx.' },
  undeliverable: { word: 'Given up', tone: 'bad', title: 'No further attempt follows.' },
}

export const toInboundWord = (status: string): string => INBOUND_STATES[status]?.word ?? status
export const toDeliveryWord = (status: string): string => ROUTE_DELIVERY_STATES[status]?.word ?? status

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
]

export const InboundNavigation = () => <AreaNavigation label="Inbound" links={LINKS} />
