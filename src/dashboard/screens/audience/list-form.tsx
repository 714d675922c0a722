/** @module The dialog that creates a contact list or changes its name, purpose and way of joining. */
import { Checkbox, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ContactList, CreateContactListRequest } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { bindChecked, DialogFrame, useFields } from '../../parts/form.tsx'

interface ListDialogProps {
  readonly list?: ContactList
  onSaved(list: ContactList): void
  onClose(): void
}

export function ListDialog({ list, onSaved, onClose }: ListDialogProps) {
  const [isDoubleOptIn, setIsDoubleOptIn] = useState(list?.double_opt_in ?? false)
  const save = useChange(
    (body: CreateContactListRequest) => (list ? api.contactLists.update(list.id, body) : api.contactLists.create(body)),
    'contactLists',
  )
  const { error } = save
  const { values, field } = useFields({ name: list?.name ?? '', description: list?.description ?? '' }, error)
  const name = values.name.trim()
  const takenError = error instanceof TassisError && error.code === 'contact_list_exists' ? error.message : undefined
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
          { onSuccess: ({ data }) => onSaved(data) },
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
        {...bindChecked(isDoubleOptIn, setIsDoubleOptIn)}
      />
    </DialogFrame>
  )
}
