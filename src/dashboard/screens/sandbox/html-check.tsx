import { Text } from '@mantine/core'
export const HtmlCheck = ({ html }: { readonly html: string }) => <Text>{html.length}</Text>
