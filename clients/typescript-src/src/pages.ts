import { UnexpectedResponseError } from "./errors.js";

interface Answer<Data> {
  data?: Data;
  response: Response;
}

interface Page<Item> {
  items: Item[];
  next_cursor?: string | null;
}

/** The data of a call. The client throws errors, so that only a response without a body has none. */
export async function data<Data>(call: Promise<Answer<Data>>): Promise<Data> {
  const answer = await call;
  if (answer.data === undefined) throw new UnexpectedResponseError(answer.response.status, "");
  return answer.data;
}

/**
 * All items of a list, page after page. The next page is read when its first item is needed.
 *
 *     iterate((cursor) => gpulease.api.GET("/v1/events", { params: { query: { after: 41, ...cursor } } }))
 */
export async function* iterate<Item>(
  read: (cursor: { cursor?: string }) => Promise<Answer<Page<Item>>>,
): AsyncGenerator<Item> {
  let cursor: string | null | undefined;
  do {
    const page = await data(read(cursor ? { cursor } : {}));
    yield* page.items;
    cursor = page.next_cursor;
  } while (cursor);
}
