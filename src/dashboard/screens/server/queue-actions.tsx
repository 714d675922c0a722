/** @module Holds, releases, retries, bounces and drops mail in the queue; each dialog says first how much matches. */
import { Group, Text } from '@mantine/core'
import type { OperatorQueueSelection, RetryOperatorQueueResult } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import {
  ACTIONS,
  describeResult,
  describeSelector,
  type QueueAction,
  type QueueResult,
  type QueueSelector,
} from './queue-format.ts'

/** Changes all that matches: each request changes a limited number. */
async function changeAll(
  change: (cursor: string | undefined) => Promise<{ readonly data: RetryOperatorQueueResult }>,
): Promise<QueueResult> {
  const sum = { changed: 0, in_delivery: 0, held: 0 }
  const suspended = new Set<string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data } = await change(cursor)
    sum.changed += data.changed
    sum.in_delivery += data.in_delivery
    sum.held += data.held
    for (const name of data.suspended) suspended.add(name)
    cursor = data.next_cursor
  }
  return { ...sum, suspended: [...suspended] }
}

const NONE: QueueResult = { changed: 0, in_delivery: 0, held: 0, suspended: [] }
const toHeld = ({ waiting, in_delivery }: OperatorQueueSelection) => ({ ...NONE, changed: waiting, in_delivery })

/** Each resolves with how much mail was changed, or is held; that of a release with how many rules ended. */
const RUN: Readonly<Record<QueueAction, (selector: QueueSelector, reason: string) => Promise<QueueResult>>> = {
  hold: async (selector, reason) => toHeld((await api.operator.holdQueue({ ...selector, reason })).data),
  release: async (selector) => ({ ...NONE, changed: (await api.operator.releaseQueue(selector)).data.length }),
  retry: (selector) => changeAll((cursor) => api.operator.retryQueue({ ...selector, cursor })),
  bounce: (selector, reason) => changeAll((cursor) => api.operator.bounceQueue({ ...selector, reason, cursor })),
  drop: (selector) => changeAll((cursor) => api.operator.dropQueue({ ...selector, cursor })),
}

const ALL_ACTIONS: readonly QueueAction[] = ['hold', 'release', 'retry', 'bounce', 'drop']

export const QueueActions = ({ selector }: { readonly selector: QueueSelector }) => (
  <Group gap="xs" role="group" aria-label={`What to do with ${describeSelector(selector)}`}>
    {ALL_ACTIONS.map((name) => (
      <DialogButton key={name} label={ACTIONS[name].button} variant="default" size="compact-sm">
        {(close) => <QueueDialog action={name} selector={selector} onClose={close} />}
      </DialogButton>
    ))}
  </Group>
)

interface QueueDialogProps {
  readonly action: QueueAction
  readonly selector: QueueSelector
  onClose(): void
}

export function QueueDialog({ action, selector, onClose }: QueueDialogProps) {
  const { title, button, effect, readers, isDangerous = false } = ACTIONS[action]
  const selection = useData(read.operator.getQueueSelection(selector), { gcTime: 0 })
  return (
    <ConfirmDialog
      title={title}
      confirm={button}
      isDangerous={isDangerous}
      error={selection.error}
      fields={
        readers === undefined
          ? []
          : [
              {
                name: 'reason',
                label: 'Reason',
                kind: 'lines',
                hint: `One sentence; ${readers} read it.`,
                isRequired: action === 'bounce',
              },
            ]
      }
      isIncomplete={selection.data === undefined}
      {...(isDangerous && { typed: selector.domain ?? action })}
      refreshes={['operator']}
      run={({ reason = '' }: { readonly reason?: string }) => RUN[action](selector, reason)}
      done={(result) => describeResult(action, result)}
      onClose={onClose}
    >
      <Text style={{ overflowWrap: 'anywhere' }}>
        This is <bdi>{describeSelector(selector)}</bdi>. {effect}
      </Text>
      <Text role="status" fw={600}>
        {selection.data === undefined
          ? 'What matches is being counted.'
          : `${formatCount(selection.data.waiting, 'recipient')} match; ${selection.data.in_delivery.toLocaleString()} more in delivery are left alone.`}
      </Text>
    </ConfirmDialog>
  )
}
