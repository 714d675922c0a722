/** @module The first step: which list the broadcast goes to. */
import { Text } from '@mantine/core'
import { FieldForm } from '../../parts/field-form.tsx'
import { TextLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { useAllLists } from '../audience/queries.ts'

interface Choice {
  readonly list_id: string
}

interface ChooseListProps {
  readonly initial?: Choice
  run(choice: Choice): Promise<unknown>
  onDone?(): void
}

export const ChooseList = ({ initial, run, onDone }: ChooseListProps) => (
  <QueryView query={useAllLists()}>
    {(lists) =>
      lists.length === 0 ? (
        <EmptyState title="A broadcast goes to a contact list">
          <Text>There is no list yet.</Text>
          <TextLink to="/audience">Create the first one</TextLink>
        </EmptyState>
      ) : (
        <FieldForm
          maw={480}
          needs="developer"
          label="Continue"
          fields={[
            {
              name: 'list_id',
              label: 'List',
              kind: 'choice',
              hint: 'Its subscribed contacts get the broadcast.',
              options: [
                { value: '', label: 'Choose a list' },
                ...lists.map(({ id, name, contact_count: count }) => ({
                  value: id,
                  label: `${name} (${count.toLocaleString()} contacts)`,
                })),
              ],
              isRequired: true,
            },
          ]}
          {...(initial && { initial })}
          refreshes={['newsletters']}
          run={run}
          {...(onDone && { onDone })}
        />
      )
    }
  </QueryView>
)
