/** @module The dialog that creates a contact list or changes its name, purpose and way of joining. */
import { Checkbox, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ContactListRecord } from '#features/audience/contact-lists/model.ts'
import { useSaveList } from '../../api/audience.ts'
import { ApiError } from '../../api/client.ts'
import { DialogFrame, findFieldError } from '../../parts/form.tsx'

interface ListDialogProps {
  /** Undefined: a new list. */
  readonly list?: ContactListRecord
  onSaved(list: ContactListRecord): void
  onClose(): void
}

export function ListDialog({ list, onSaved, onClose }: ListDialogProps) {
  const [name, setName] = useState(list?.name ?? '')
  const [description, setDescription] = useState(list?.description ?? '')
  const [isDoubleOptIn, setIsDoubleOptIn] = useState(list?.double_opt_in ?? false)
  const save = useSaveList(list?.id)
  const { error } = save
  const nameError =
    findFieldError(error, 'name') ??
    (error instanceof ApiError && error.code === 'contact_list_exists' ? error.message : undefined)
  const descriptionError = findFieldError(error, 'description')
  return (
    <DialogFrame
      title={list ? 'Edit this list' : 'New list'}
      confirm={list ? 'Save' : 'Create the list'}
      work={{
        isPending: save.isPending,
        error: nameError === undefined && descriptionError === undefined ? error : undefined,
      }}
      isIncomplete={name.trim() === ''}
      onConfirm={() =>
        save.mutate(
          { name: name.trim(), description: description.trim() || null, double_opt_in: isDoubleOptIn },
          { onSuccess: onSaved },
        )
      }
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="Its contacts see it where they confirm and where they unsubscribe."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={nameError}
        maxLength={200}
        required
        autoComplete="off"
        data-autofocus
      />
      <Textarea
        label="Purpose"
        description="Only your team sees it."
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
        error={descriptionError}
        maxLength={2000}
        autosize
        minRows={2}
        maxRows={8}
      />
      <Checkbox
        label="Ask new contacts to confirm (double opt-in)"
        description="They get an email with a link, and nothing else until they use it."
        checked={isDoubleOptIn}
        onChange={(event) => setIsDoubleOptIn(event.currentTarget.checked)}
      />
    </DialogFrame>
  )
}
