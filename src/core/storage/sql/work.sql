-- select_promotable: test listings whose category and price a live publication takes over.
SELECT sku, category_id, price FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND sku = ANY (%(skus)s::text[])
    AND published_at IS NOT NULL AND app_status = 1 AND status_meli NOT IN ('closed', 'inactive')
    AND NOT published_to_live AND price IS NOT NULL;
