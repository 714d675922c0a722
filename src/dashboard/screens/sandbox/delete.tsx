/** @module Asks before captured mail is deleted. */
import { Text } from '@mantine/core'
import { useDeleteCaptured } from '../../api/captured.ts'
import { DialogFrame } from '../../parts/dialog.tsx'

export interface Deletion {
  /** Id of the email; undefined: all captured mail. */
  readonly id: string | undefined
  readonly subject?: string | undefined
}

interface DeleteDialogProps {
  readonly deletion: Deletion
  onClose(): void
  onDeleted(deletion: Deletion): void
}

export function DeleteDialog({ deletion, onClose, onDeleted }: DeleteDialogProps) {
  const remove = useDeleteCaptured()
  const isAll = deletion.id === undefined
  return (
    <DialogFrame
      title={isAll ? 'Delete all captured mail?' : 'Delete this captured email?'}
      confirm={isAll ? 'Delete all' : 'Delete'}
      isDangerous
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate({ id: deletion.id }, { onSuccess: () => onDeleted(deletion) })}
      onClose={onClose}
    >
      {deletion.subject && (
        <Text fw={600} lineClamp={3} title={deletion.subject}>
          <bdi>{deletion.subject}</bdi>
        </Text>
      )}
      <Text>
        {isAll
          ? 'Everything that was captured in this account is deleted, whatever the search shows.'
          : 'The captured message is deleted.'}{' '}
        The entries under Emails stay. This cannot be undone.
      </Text>
    </DialogFrame>
  )
}
