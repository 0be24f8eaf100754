function p = khatrirao(factors, order)
  % Column-wise Kronecker product of a cell of matrices; 'r' takes them in reverse.
  if nargin > 1 && strcmp(order, 'r')
    factors = fliplr(factors);
  end
  p = factors{1};
  for k = 2:numel(factors)
    f = factors{k};
    p = reshape(reshape(f, [], 1, columns(f)) .* reshape(p, 1, [], columns(p)), [], columns(p));
  end
end
