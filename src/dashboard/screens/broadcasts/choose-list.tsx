/** @module The first step: which list the broadcast goes to. */
import { Alert, Button, NativeSelect, Text } from '@mantine/core'
import { useState } from 'react'
import { bindText, Form, FormError } from '../../parts/form.tsx'
import { TextLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { useAllLists } from '../audience/queries.ts'

interface ChooseListProps {
  readonly initial: string
  readonly error?: unknown
  readonly isBusy?: boolean
  readonly reason: string | undefined
  onChosen(listId: string): void
}

export function ChooseList({ initial, error, isBusy = false, reason, onChosen }: ChooseListProps) {
  const query = useAllLists()
  const [listId, setListId] = useState(initial)
  return (
    <QueryView query={query}>
      {(lists) => {
        if (lists.length === 0)
          return (
            <EmptyState title="A broadcast goes to a contact list">
              <Text>There is no list yet.</Text>
              <TextLink to="/audience">Create the first one</TextLink>
            </EmptyState>
          )
        const isKnown = lists.some(({ id }) => id === listId)
        const submit = () => {
          if (isKnown && reason === undefined) onChosen(listId)
        }
        return (
          <Form onSubmit={submit} noValidate={false} maw={480} align="flex-start">
            {reason !== undefined && <Alert color="gray">{reason}</Alert>}
            <NativeSelect
              w="100%"
              label="List"
              description="Its subscribed contacts get the broadcast."
              {...bindText(isKnown ? listId : '', setListId)}
              required
              data={[
                { value: '', label: 'Choose a list' },
                ...lists.map(({ id, name, contact_count: count }) => ({
                  value: id,
                  label: `${name} (${count.toLocaleString()} contacts)`,
                })),
              ]}
            />
            <FormError error={error} />
            <Button type="submit" loading={isBusy} disabled={!isKnown || reason !== undefined}>
              Continue
            </Button>
          </Form>
        )
      }}
    </QueryView>
  )
}
