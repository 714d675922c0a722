/** @module A list of deliveries to the webhook of a route, each with its response and a replay. */
import { Code, Stack, Text } from '@mantine/core'
import type { InboundEmailDelivery } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { SmallAction } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form.tsx'
import { NameLink } from '../../parts/links.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { DeliveryStatus } from './marks.tsx'

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
    { header: 'Created', width: '9rem', cell: (delivery) => <Created delivery={delivery} isLink={hasEmails} /> },
    { header: 'Status', width: '9rem', phone: 'aside', cell: ({ status }) => <DeliveryStatus status={status} /> },
    { header: 'Tries', width: '10rem', cell: (delivery) => <Attempts delivery={delivery} /> },
    { header: 'Response', phone: 'bare', isWrapped: true, cell: (delivery) => <Reply delivery={delivery} /> },
    {
      header: 'Replay',
      width: '8rem',
      phone: 'bare',
      cell: (delivery) => (
        <SmallAction
          size="compact-sm"
          needs="developer"
          loading={replay.isPending && replay.variables?.id === delivery.id}
          aria-label={`Send again: delivery of ${delivery.created_at.slice(0, 19)}`}
          onClick={() => replay.mutate(delivery)}
        >
          Send again
        </SmallAction>
      ),
    },
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
  return (
    <NameLink to="/inbound/$id" params={{ id: email }}>
      <Time iso={at} />
    </NameLink>
  )
}

const Attempts = ({ delivery: { attempts, next_attempt_at: next } }: { readonly delivery: InboundEmailDelivery }) => (
  <Text size="sm">
    {attempts}
    {next && (
      <>
        ; next <Time iso={next} />
      </>
    )}
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
