/** @module Holds, releases, retries, bounces and drops mail in the queue; each dialog says first how much matches. */
import { Group, Text } from '@mantine/core'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { type QueueAction, type QueueSelector, runQueueAction } from './queries.ts'
import { ACTIONS, describeResult, describeSelector } from './queue-format.ts'

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
      run={({ reason = '' }: { readonly reason?: string }) => runQueueAction(action, selector, reason)}
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
