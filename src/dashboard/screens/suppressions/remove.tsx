/** @module Removes an address from the suppression list, after a warning that fits its reasons. */
import { Alert, List, Text } from '@mantine/core'
import { useRemoveSuppression, useSuppressionsOf } from '../../api/suppressions.ts'
import { DialogFrame } from '../../parts/dialog.tsx'
import { LoadingState } from '../../parts/states.tsx'
import { describeScope, findReason, isErased, listWarnings } from './reasons.ts'

interface RemoveDialogProps {
  readonly address: string
  /** @param message what was done; undefined: nothing */
  onClose(message?: string): void
}

export function RemoveDialog({ address, onClose }: RemoveDialogProps) {
  const suppressions = useSuppressionsOf(address)
  const remove = useRemoveSuppression()
  const rows = suppressions.data ?? []
  const warnings = listWarnings(rows)
  const name = isErased(address) ? 'an erased person' : address
  return (
    <DialogFrame
      title="Send mail to this address again?"
      confirm="Remove from the list"
      isDangerous={warnings.length > 0}
      work={{ isPending: remove.isPending, error: remove.error ?? suppressions.error }}
      isIncomplete={suppressions.data === undefined}
      onConfirm={() => remove.mutate(address, { onSuccess: () => onClose(`Mail to ${name} is sent again.`) })}
      onClose={() => onClose()}
    >
      <Text fw={600}>
        <bdi>{name}</bdi>
      </Text>
      {suppressions.isPending ? (
        <LoadingState rows={1} />
      ) : (
        <>
          <Text>{rows.length === 1 ? 'This is removed:' : 'All suppressions of the address are removed:'}</Text>
          <List size="sm">
            {rows.map((row) => (
              <List.Item key={row.id}>
                <bdi>{findReason(row.reason)?.word ?? row.reason}</bdi>: {describeScope(row)}
              </List.Item>
            ))}
          </List>
        </>
      )}
      {warnings.map((warning) => (
        <Alert key={warning} color="yellow" title="Are you sure?">
          {warning}
        </Alert>
      ))}
      <Text size="sm">Contacts that were stopped by this become active again.</Text>
    </DialogFrame>
  )
}
