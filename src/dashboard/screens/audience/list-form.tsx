/** @module The dialog that creates a contact list or changes its name, purpose and way of joining. */
import { Checkbox, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ContactListRecord } from '#features/audience/contact-lists/model.ts'
import { useSaveList } from '../../api/audience.ts'
import { ApiError } from '../../api/client.ts'
import { DialogFrame, useFields } from '../../parts/form.tsx'

interface ListDialogProps {
  /** Undefined: a new list. */
  readonly list?: ContactListRecord
  onSaved(list: ContactListRecord): void
  onClose(): void
}

export function ListDialog({ list, onSaved, onClose }: ListDialogProps) {
  const [isDoubleOptIn, setIsDoubleOptIn] = useState(list?.double_opt_in ?? false)
  const save = useSaveList(list?.id)
  const { error } = save
  const { values, field } = useFields({ name: list?.name ?? '', description: list?.description ?? '' }, error)
  const name = values.name.trim()
  const takenError = error instanceof ApiError && error.code === 'contact_list_exists' ? error.message : undefined
  return (
    <DialogFrame
      title={list ? 'Edit this list' : 'New list'}
      confirm={list ? 'Save' : 'Create the list'}
      work={{ isPending: save.isPending, error: takenError === undefined ? error : undefined }}
      fields={['name', 'description']}
      isIncomplete={name === ''}
      onConfirm={() =>
        save.mutate(
          { name, description: values.description.trim() || null, double_opt_in: isDoubleOptIn },
          { onSuccess: onSaved },
        )
      }
      onClose={onClose}
    >
      <TextInput
        {...field('name')}
        label="Name"
        description="Its contacts see it where they confirm and where they unsubscribe."
        error={takenError ?? field('name').error}
        maxLength={200}
        required
        autoComplete="off"
        data-autofocus
      />
      <Textarea
        {...field('description')}
        label="Purpose"
        description="Only your team sees it."
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
