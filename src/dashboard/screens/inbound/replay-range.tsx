/** @module Replays all mail of a route from a time on: after its receiver was broken. */
import { Checkbox, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { InboundRoute } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { ActionButton, bindChecked, bindText, DialogFrame } from '../../parts/form.tsx'
import { formatCount } from '../../parts/format.ts'
import { isDeactivated } from './format.ts'

const isDate = (text: string): boolean => !Number.isNaN(new Date(text).getTime())

interface Range {
  readonly from: string
  readonly to?: string
  /** Only what the URL has not accepted. */
  readonly undelivered: boolean
}

/** Why nothing can be replayed; undefined: it can. */
const findObstacle = (route: InboundRoute): string | undefined =>
  route.webhook_url === null
    ? 'The route has no URL.'
    : !route.is_active || isDeactivated(route)
      ? 'Nothing is posted to its URL now.'
      : undefined

/** Undefined: the range is not complete. */
const toRange = (from: string, to: string, undelivered: boolean): Range | undefined =>
  isDate(from) && (to === '' || isDate(to))
    ? { from: new Date(from).toISOString(), ...(to !== '' && { to: new Date(to).toISOString() }), undelivered }
    : undefined

export function ReplayRange({ route }: { readonly route: InboundRoute }) {
  const [isOpen, setIsOpen] = useState(false)
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [isMissed, setIsMissed] = useState(true)
  const range = toRange(from, to, isMissed)
  const counted = useData(read.inboundRoutes.countReplay(route.id, range ?? {}), {
    enabled: isOpen && range !== undefined,
    retry: false,
  })
  const replay = useChange(
    () => api.inboundRoutes.replay(route.id, range ?? {}),
    ['inboundRoutes', 'listDeliveries', route.id],
  )
  const count = replay.data?.data.deliveries
  return (
    <>
      <ActionButton variant="default" needs="developer" reason={findObstacle(route)} onClick={() => setIsOpen(true)}>
        Send a range again
      </ActionButton>
      <div role="status">
        {count !== undefined && !isOpen && (
          <Text size="sm">{count === 0 ? 'There was no mail in that time.' : toCreatedWords(count)}</Text>
        )}
      </div>
      {isOpen && (
        <DialogFrame
          title="Send mail to the URL again"
          confirm="Send again"
          work={{ isPending: replay.isPending, error: replay.error ?? counted.error }}
          isIncomplete={range === undefined || counted.data?.deliveries === 0}
          onConfirm={() => replay.mutate(undefined, { onSuccess: () => setIsOpen(false) })}
          onClose={() => setIsOpen(false)}
        >
          <Text size="sm">
            The messages of this route in that time are posted again, at most 10,000 at once. Your receiver should
            recognise those that it has by inbound_email_id.
          </Text>
          <TextInput
            type="datetime-local"
            label="From"
            description="In the time zone of this browser."
            {...bindText(from, setFrom)}
            required
            data-autofocus
          />
          <TextInput type="datetime-local" label="To" description="Empty: until now." {...bindText(to, setTo)} />
          <Checkbox label="Only mail that was not accepted" {...bindChecked(isMissed, setIsMissed)} />
          <div role="status">
            {counted.data && (
              <Text>
                {counted.data.deliveries === 0
                  ? 'There is no such mail of this route in that time.'
                  : `${formatCount(counted.data.deliveries, 'message')} will be posted.`}
              </Text>
            )}
          </div>
        </DialogFrame>
      )}
    </>
  )
}

const toCreatedWords = (count: number): string =>
  count === 1 ? '1 new delivery was created.' : `${count.toLocaleString()} new deliveries were created.`
